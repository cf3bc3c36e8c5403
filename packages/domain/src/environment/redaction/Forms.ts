/** The parts of a secret to hide, and the encodings in which they appear. */
import * as Base64 from "effect/encoding/Base64"
import * as Hex from "effect/encoding/Hex"
import { SHORTEST_REDACTED } from "../ports/SecretStore.ts"

const utf8 = new TextEncoder()

/** Shorter values would match everywhere. */
export const SHORTEST = SHORTEST_REDACTED

/** The base64 characters that depend on `bytes` alone, for each of the three offsets at which they can begin in the encoded data. */
export const inBase64 = (bytes: Uint8Array): ReadonlyArray<string> =>
  // The first character without a bit of the bytes before, for 0, 1 and 2 of them.
  [0, 2, 3].map((begin, before) => {
    const shifted = new Uint8Array(before + bytes.length)
    shifted.set(bytes, before)
    return Base64.encode(shifted).slice(begin, Math.floor(shifted.length * 8 / 6))
  })

const unicode = (text: string): string =>
  Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")

/** The length of the longest tokens. For longer texts, encodings of six characters per character are not searched. */
const LONGEST_SPELLED = 2_048

/** The escapes of JSON: the required ones, common optional ones (slashes, HTML, non-ASCII, all but letters), and every character. */
const inJson = (secret: string): ReadonlyArray<string> => {
  const plain = JSON.stringify(secret).slice(1, -1)
  const once = [plain, plain.replaceAll("/", "\\/")].flatMap((text) => [text, text.replace(/[<>&'\u2028\u2029]/gu, unicode)])
  const spelled = secret.length <= LONGEST_SPELLED ? [secret.replace(/\W/gu, unicode), unicode(secret)] : []
  const all = [...once, ...once.map((text) => text.replace(/\P{ASCII}/gu, unicode)), ...spelled]
  // JSON in a JSON string.
  return Array.from(new Set([...all, ...all.map((text) => JSON.stringify(text).slice(1, -1))]))
}

/** The value and its encodings. Encodings that differ in case only are merged. */
export const formsOf = (value: string): ReadonlyArray<string> => {
  const secret = value.toWellFormed()
  const bytes = utf8.encode(secret)
  const hex = Hex.encode(bytes)
  const base64 = inBase64(bytes)
  return [
    value,
    ...inJson(secret),
    encodeURIComponent(secret),
    // RFC 3986 reserves these too.
    encodeURIComponent(secret).replace(/[!'()*]/gu, (one) => `%${one.charCodeAt(0).toString(16)}`),
    new URLSearchParams([["", secret]]).toString().slice(1),
    hex.replace(/../gu, "%$&"),
    hex,
    ...base64,
    ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))
  ]
}

/** The lines of a text of several lines, such as a private key, without lines that only name the format. */
export const linesOf = (secret: string): ReadonlyArray<string> =>
  secret.split(/\\n|\r?\n/u).map((line) => line.trim()).filter((line) => !line.startsWith("-----"))

/** The passwords of a URL and of URLs in it, encoded as written and decoded. */
const passwordsOf = (address: string): ReadonlyArray<string> =>
  [/:\/\/[^:@/?]*:([^/?]+)@/gu, /[?&](?:ssl)?password=([^&#]+)/gu]
    .flatMap((place) => Array.from(address.matchAll(place), ([, written = ""]) => written))
    .flatMap((written) => {
      try {
        return [written, decodeURIComponent(written)]
      } catch {
        return [written]
      }
    })

/** The parts of a secret to hide: the password of a URL, every line of other text. */
export const partsOf = (secret: string): ReadonlyArray<string> => {
  // Only a Postgres URL may have a user without a host.
  if (URL.canParse(secret) && secret.includes("://") || /^postgres(?:ql)?:\/\//u.test(secret)) return passwordsOf(secret)
  return linesOf(secret)
}
