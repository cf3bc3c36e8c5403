/** The end of what a process wrote to its standard error, kept for the operator. */

const KEPT_BYTES = 8 * 1024

export class StderrTail {
  #bytes: Uint8Array = new Uint8Array()
  #isCut = false

  add(bytes: Uint8Array): void {
    const all = Buffer.concat([this.#bytes, bytes.subarray(-KEPT_BYTES)])
    this.#isCut ||= all.length > KEPT_BYTES || bytes.length > KEPT_BYTES
    this.#bytes = all.subarray(-KEPT_BYTES)
  }

  /** Whole lines: what is left of a secret whose beginning is cut off has the shape of none. */
  get text(): string {
    const text = Buffer.from(this.#bytes).toString("utf8")
    return this.#isCut ? text.slice((text.indexOf("\n") + 1) || text.length) : text
  }
}
