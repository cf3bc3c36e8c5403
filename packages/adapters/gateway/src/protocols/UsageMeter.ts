/** Reads the usage from an answer's bytes while they pass. Unreadable parts are passed on; the estimate covers them. */
import { noTokens } from "@slipway/domain/models/rules/Budget"
import { isObject } from "./JsonFields.ts"
import type { Counted, Json, Protocol } from "./Protocol.ts"

/** The longest line of a stream, or whole answer, that is read. The last event of a Responses stream repeats the whole answer. */
const MAXIMUM_BYTES = 4 * 1024 * 1024

const LINE_FEED = 0x0a
const USAGE = Buffer.from("\"usage\"")

const parse = (text: string): Json | null => {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

export class UsageMeter {
  counted: Counted = { tokens: noTokens, final: false }
  /** Bytes of the answer so far. */
  bytes = 0
  /** Whether a line was too long to read, which may have had the usage. */
  isPartial = false
  readonly #protocol: Protocol
  readonly #streaming: boolean
  #pending: Array<Buffer> = []
  #pendingBytes = 0
  #tooLong = false

  constructor(protocol: Protocol, streaming: boolean) {
    this.#protocol = protocol
    this.#streaming = streaming
  }

  /** True when the count may have changed. */
  add(chunk: Buffer): boolean {
    this.bytes += chunk.length
    if (!this.#streaming) {
      this.#keep(chunk)
      return false
    }
    let changed = false
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      this.#keep(chunk.subarray(start, end))
      changed = this.#take() || changed
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return changed
  }

  /** Reads the end of the answer. True when the count may have changed. */
  end(): boolean {
    return this.#take()
  }

  #keep(bytes: Buffer): void {
    this.#pendingBytes += bytes.length
    if (this.#pendingBytes > MAXIMUM_BYTES) {
      this.#tooLong = true
      this.isPartial = true
      this.#pending = []
    } else if (bytes.length > 0) this.#pending.push(bytes)
  }

  #take(): boolean {
    const line = this.#tooLong ? Buffer.alloc(0) : this.#pending.length === 1 ? this.#pending[0] : Buffer.concat(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    this.#tooLong = false
    if (line === undefined || !line.includes(USAGE)) return false
    const text = line.toString("utf8")
    const event = parse(this.#streaming ? text.replace(/^data:/u, "") : text)
    if (event === null) return false
    this.counted = this.#protocol.count(this.counted, event)
    return true
  }
}
