/** Splits chunks of bytes at line feeds, within bounds. */

const NEWLINE = 10

export class LineReader {
  readonly #maximum: number
  /** The beginning of a line. Its memory doubles, so that small chunks cost no more than large ones. */
  #bytes = Buffer.alloc(0)
  #length = 0

  /** `maximum`: bytes of one line. */
  constructor(maximum: number) {
    this.#maximum = maximum
  }

  /** The lines that end in this chunk; `null`: one is longer than allowed. */
  read(chunk: Uint8Array): ReadonlyArray<string> | null {
    const lines: Array<string> = []
    let start = 0
    for (let end; (end = chunk.indexOf(NEWLINE, start)) >= 0; start = end + 1) {
      if (!this.#add(chunk.subarray(start, end))) return null
      // Its bytes are decoded together, so that chunks do not split characters.
      lines.push(this.#bytes.toString("utf8", 0, this.#length))
      this.#bytes = Buffer.alloc(0)
      this.#length = 0
    }
    return this.#add(chunk.subarray(start)) ? lines : null
  }

  #add(chunk: Uint8Array): boolean {
    const length = this.#length + chunk.length
    if (length > this.#maximum) return false
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, length))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    this.#bytes.set(chunk, this.#length)
    this.#length = length
    return true
  }
}
