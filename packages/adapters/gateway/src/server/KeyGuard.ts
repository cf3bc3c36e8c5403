/**
 * Removes a provider's keys from its answers: some providers repeat it in errors, and a misconfigured one may echo whole requests. It
 * finds all spellings of its characters: plain, escaped in JSON or URLs, and in base64. Only bytes at the end of a chunk that could
 * begin the key are held back until the next chunk.
 */
import { inBase64 } from "@slipway/domain/environment/redaction/Forms"

const SHOWN = Buffer.from("[redacted]")

/** Shorter keys would match everywhere. */
const SHORTEST = 8

/** The most backslashes in front of a character, for JSON in JSON in JSON. */
const MAX_BACKSLASHES = 4
const [BACKSLASH, PERCENT, SLASH, QUOTE, U] = [0x5c, 0x25, 0x2f, 0x22, 0x75]

/** The result at a position: no match, a possible beginning, or a number of bytes. */
const NOTHING = 0
const PARTIAL = -1

type Read = typeof NOTHING | typeof PARTIAL | number

/** The bytes so far, and whether more may come. */
interface Come {
  readonly bytes: Buffer
  readonly isLast: boolean
}

/** Whether the `digits` at `at` are `value` in hexadecimal. */
const readHex = ({ bytes, isLast }: Come, at: number, digits: number, value: number): Read => {
  const text = bytes.toString("latin1", at, at + digits).toLowerCase()
  const wanted = value.toString(16).padStart(digits, "0")
  if (text.length === digits) return text === wanted ? digits : NOTHING
  return !isLast && wanted.startsWith(text) ? PARTIAL : NOTHING
}

/** The number of bytes at `at` that spell the character `value`. */
const readCharacter = (come: Come, at: number, value: number): Read => {
  const { bytes, isLast } = come
  const first = bytes[at]
  if (first === undefined) return isLast ? NOTHING : PARTIAL
  if (first === PERCENT) {
    const read = readHex(come, at + 1, 2, value)
    if (read !== NOTHING) return read === PARTIAL ? PARTIAL : 1 + read
  }
  if (first !== BACKSLASH) return first === value ? 1 : NOTHING
  let behind = at
  while (bytes[behind] === BACKSLASH && behind - at < MAX_BACKSLASHES) behind++
  const next = bytes[behind]
  if (next === undefined && !isLast) return PARTIAL
  if (next === U) {
    const read = readHex(come, behind + 1, 4, value)
    if (read !== NOTHING) return read === PARTIAL ? PARTIAL : behind - at + 1 + read
  }
  if (value === BACKSLASH) return Math.min(2, behind - at)
  return next === value && (next === SLASH || next === QUOTE) ? behind - at + 1 : NOTHING
}

/** The number of bytes at `at` that spell the key. */
const readKey = (come: Come, at: number, key: Buffer): Read => {
  let end = at
  for (const value of key) {
    const read = readCharacter(come, end, value)
    if (read <= 0) return read
    end += read
  }
  return end - at
}

/** The key, and its forms in base64. */
const spellings = (key: string): ReadonlyArray<Buffer> => {
  const plain = Buffer.from(key)
  const encoded = inBase64(plain)
  const forUrls = encoded.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))
  return [plain, ...[...encoded, ...forUrls].map((text) => Buffer.from(text))]
}

export class KeyGuard {
  readonly #keys: ReadonlyArray<Buffer>
  /** Bytes that can begin the key. */
  readonly #begins = new Uint8Array(256)
  #held: Buffer = Buffer.alloc(0)

  constructor(keys: ReadonlyArray<string>) {
    this.#keys = keys.filter(({ length }) => length >= SHORTEST).flatMap(spellings).filter(({ length }) => length >= SHORTEST)
    if (this.#keys.length > 0) this.#begins[BACKSLASH] = this.#begins[PERCENT] = 1
    for (const [first = 0] of this.#keys) this.#begins[first] = 1
  }

  /** The bytes that may be passed on. */
  pass(chunk: Buffer): Buffer {
    if (this.#keys.length === 0) return chunk
    return this.#clean({ bytes: this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]), isLast: false })
  }

  /** The bytes held back, after the last chunk. */
  end(): Buffer {
    return this.#clean({ bytes: this.#held, isLast: true })
  }

  #clean(come: Come): Buffer {
    const { bytes } = come
    const clean: Array<Buffer> = []
    let [from, kept] = [0, bytes.length]
    for (let at = 0; at < bytes.length; at++) {
      if (this.#begins[bytes[at] ?? 0] === 0) continue
      const found = this.#find(come, at)
      if (found === PARTIAL) {
        kept = at
        break
      }
      if (found === NOTHING) continue
      clean.push(bytes.subarray(from, at), SHOWN)
      from = at + found
      at = from - 1
    }
    this.#held = bytes.subarray(kept)
    clean.push(bytes.subarray(from, kept))
    return clean.length === 1 ? clean[0] ?? bytes : Buffer.concat(clean)
  }

  #find(come: Come, at: number): Read {
    let isPartial = false
    for (const key of this.#keys) {
      const read = readKey(come, at, key)
      if (read > 0) return read
      isPartial ||= read === PARTIAL
    }
    return isPartial ? PARTIAL : NOTHING
  }
}

/** The text without the keys. */
export const withoutKeys = (text: string, keys: ReadonlyArray<string>): string => {
  const guard = new KeyGuard(keys)
  return Buffer.concat([guard.pass(Buffer.from(text)), guard.end()]).toString()
}

/** The text without the key; `null`: there is none. */
export const withoutKey = (text: string, key: string | null): string => withoutKeys(text, key === null ? [] : [key])
