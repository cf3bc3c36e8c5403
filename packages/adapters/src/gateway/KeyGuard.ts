/**
 * Keeps a provider's key out of what a provider says: some repeat it in their errors, and an upstream set up wrongly may
 * echo whole requests. Only bytes at the end of a chunk that could begin the key are held back until the next chunk.
 */
const SHOWN = Buffer.from("[redacted]")

/** Shorter ones would be found everywhere. */
const SHORTEST = 8

export class KeyGuard {
  readonly #key: Buffer
  #held: Buffer = Buffer.alloc(0)

  constructor(key: string | null) {
    this.#key = Buffer.from(key !== null && key.length >= SHORTEST ? key : "")
  }

  /** The bytes that may go on. */
  pass(chunk: Buffer): Buffer {
    const key = this.#key
    if (key.length === 0) return chunk
    let rest: Buffer = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    const clean: Array<Buffer> = []
    for (let at = rest.indexOf(key); at !== -1; at = rest.indexOf(key)) {
      clean.push(rest.subarray(0, at), SHOWN)
      rest = rest.subarray(at + key.length)
    }
    const kept = this.#beginning(rest)
    this.#held = rest.subarray(rest.length - kept)
    clean.push(rest.subarray(0, rest.length - kept))
    return clean.length === 1 ? clean[0] ?? chunk : Buffer.concat(clean)
  }

  /** What was held back; nothing more comes. */
  end(): Buffer {
    const held = this.#held
    this.#held = Buffer.alloc(0)
    return held
  }

  /** Length of the longest end of `bytes` that begins the key. */
  #beginning(bytes: Buffer): number {
    for (let length = Math.min(this.#key.length - 1, bytes.length); length > 0; length--) {
      if (this.#key.subarray(0, length).equals(bytes.subarray(bytes.length - length))) return length
    }
    return 0
  }
}

/** The text without the key. */
export const withoutKey = (text: string, key: string | null): string =>
  key === null || key.length < SHORTEST ? text : text.replaceAll(key, SHOWN.toString())
