/** The end of a process's standard error, kept for the operator. */
import type { Readable } from "node:stream"

const KEPT_BYTES = 8 * 1024

/** After so many bytes a process has to wait a second until more are read. */
const AT_ONCE_BYTES = 1024 * 1024

export class StderrTail {
  #bytes: Uint8Array = new Uint8Array()
  #isCut = false

  /** Reads the stream to its end. A failed stream counts as ended. */
  static of(stream: Readable): StderrTail {
    const tail = new StderrTail()
    let read = 0
    stream.on("error", () => {})
    stream.on("data", (bytes: Uint8Array) => {
      tail.add(bytes)
      read += bytes.length
      if (read < AT_ONCE_BYTES) return
      read = 0
      stream.pause()
      setTimeout(() => stream.resume(), 1000).unref()
    })
    return tail
  }

  add(bytes: Uint8Array): void {
    const all = Buffer.concat([this.#bytes, bytes.subarray(-KEPT_BYTES)])
    this.#isCut ||= all.length > KEPT_BYTES || bytes.length > KEPT_BYTES
    this.#bytes = all.subarray(-KEPT_BYTES)
  }

  /** Whole lines: the rest of a cut line may be a part of a secret that redaction does not recognize. */
  get text(): string {
    const text = Buffer.from(this.#bytes).toString("utf8")
    return this.#isCut ? text.slice((text.indexOf("\n") + 1) || text.length) : text
  }
}
