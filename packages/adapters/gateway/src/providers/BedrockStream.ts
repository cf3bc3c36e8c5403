/**
 * The stream of `InvokeModelWithResponseStream` (`application/vnd.amazon.eventstream`) as server-sent events of Anthropic's API. Frames
 * are checked against their checksums.
 */
import type { EventStreamCodec } from "@smithy/core/event-streams"
import { isObject } from "../protocols/JsonFields.ts"
import type { Json } from "../protocols/Protocol.ts"

/** A frame has one event of the model, in base64. The longest are those with a block of an answer: some hundred KiB. */
const MAXIMUM_BYTES = 4 * 1024 * 1024
/** The lengths and checksums of a frame without headers and body. */
const MINIMUM_BYTES = 16

/** Anthropic's name of a failure of Bedrock. */
const TYPES: Readonly<Record<string, string>> = {
  throttlingException: "rate_limit_error",
  validationException: "invalid_request_error",
  serviceUnavailableException: "overloaded_error",
  modelTimeoutException: "timeout_error"
}

/** Loads the decoder of frames. */
export const load = async (): Promise<() => BedrockStream> => {
  const { EventStreamCodec: Codec } = await import("@smithy/core/event-streams")
  const decoder = new Codec((bytes) => Buffer.from(bytes as Uint8Array).toString("utf8"), (text) => Buffer.from(text, "utf8"))
  return () => new BedrockStream(decoder)
}

const parsed = (text: string): Json | null => {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

const eventOf = (type: string, data: Json): string => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`

export class BedrockStream {
  readonly #decoder: EventStreamCodec
  #pending: Buffer = Buffer.alloc(0)
  #hasFailed = false
  /** Whether the bytes are no frames, or one is too long. Nothing is read after that. */
  isInvalid = false

  constructor(decoder: EventStreamCodec) {
    this.#decoder = decoder
  }

  /** The events that are complete with this chunk, up to the first invalid frame. */
  push(chunk: Buffer): Buffer {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    const events: Array<string> = []
    let at = 0
    while (!this.isInvalid && this.#pending.length - at >= 4) {
      const length = this.#pending.readUInt32BE(at)
      this.isInvalid = length < MINIMUM_BYTES || length > MAXIMUM_BYTES
      if (this.isInvalid || this.#pending.length - at < length) break
      const event = this.#read(this.#pending.subarray(at, at + length))
      if (event === null) this.isInvalid = true
      else events.push(event)
      at += length
    }
    this.#pending = this.#pending.subarray(at)
    return Buffer.from(events.join(""))
  }

  /** Whether the provider sent the answer to its end. */
  get isComplete(): boolean {
    return !this.#hasFailed && this.#pending.length === 0
  }

  /** Whether it ended within a frame. */
  get isCut(): boolean {
    return this.#pending.length > 0
  }

  /** The event of a frame; empty: a kind that does not concern agents; `null`: the frame is invalid. */
  #read(frame: Buffer): string | null {
    try {
      const { body, headers } = this.#decoder.decode(frame)
      const kind = headers[":message-type"]?.value
      const json = parsed(Buffer.from(body).toString("utf8"))
      if (kind === "event") {
        if (headers[":event-type"]?.value !== "chunk") return ""
        const bytes = json?.["bytes"]
        const event = typeof bytes === "string" ? parsed(Buffer.from(bytes, "base64").toString("utf8")) : null
        return event === null || typeof event["type"] !== "string" || !/^\w{1,100}$/u.test(event["type"])
          ? null
          : eventOf(event["type"], event)
      }
      this.#hasFailed = true
      const name = headers[kind === "exception" ? ":exception-type" : ":error-code"]?.value
      const said = json?.["message"] ?? headers[":error-message"]?.value
      const message = typeof said === "string" ? said : "The model's provider stopped in the middle of its answer."
      return eventOf("error", { type: "error", error: { type: TYPES[String(name)] ?? "api_error", message } })
    } catch {
      return null
    }
  }
}
