/** The last bytes of a terminal, for attachments that come later. */

/** As long as a few hundred full lines with colours. */
export const SCROLLBACK_BYTES = 256 * 1024

export class Scrollback {
  readonly #limit: number
  #chunks: Array<Uint8Array> = []
  #size = 0

  constructor(limit = SCROLLBACK_BYTES) {
    this.#limit = limit
  }

  push(bytes: Uint8Array): void {
    this.#chunks.push(bytes)
    this.#size += bytes.length
    // Cut rarely: joining for each small chunk would copy everything each time.
    if (this.#size > 2 * this.#limit || this.#chunks.length > 4096) this.#join()
  }

  /** The last bytes, at most as many as the limit. */
  get bytes(): Uint8Array {
    this.#join()
    return this.#chunks[0] ?? new Uint8Array()
  }

  #join() {
    const all = new Uint8Array(this.#size)
    let at = 0
    for (const chunk of this.#chunks) {
      all.set(chunk, at)
      at += chunk.length
    }
    const kept = all.slice(Math.max(0, all.length - this.#limit))
    this.#chunks = kept.length === 0 ? [] : [kept]
    this.#size = kept.length
  }
}
