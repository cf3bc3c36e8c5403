/** What of a secret must not be shown, and the forms it travels in. */
import * as Base64 from "effect/encoding/Base64"
import * as Hex from "effect/encoding/Hex"
import { SHORTEST_REDACTED } from "../ports/SecretStore.ts"

const utf8 = new TextEncoder()

/** Shorter ones would be found everywhere. */
export const SHORTEST = SHORTEST_REDACTED

/** The characters of base64 that say nothing but `bytes`, wherever these begin in what was encoded. */
export const inBase64 = (bytes: Uint8Array): ReadonlyArray<string> =>
  [0, 1, 2].map((before) => {
    const shifted = new Uint8Array(before + bytes.length)
    shifted.set(bytes, before)
    return Base64.encode(shifted).slice(Math.ceil(before * 8 / 6), Math.floor((before + bytes.length) * 8 / 6))
  })

const unicode = (text: string): string =>
  Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")

/** Characters of a token: of a longer text the spellings that take six characters for each are not looked for. */
const LONGEST_SPELLED = 2_048

/** As JSON has it: what must be escaped, what some escape beside it (slashes, HTML, all but ASCII, all but letters), and everything. */
const inJson = (secret: string): ReadonlyArray<string> => {
  const plain = JSON.stringify(secret).slice(1, -1)
  const once = [plain, plain.replaceAll("/", "\\/")].flatMap((text) => [text, text.replace(/[<>&'\u2028\u2029]/gu, unicode)])
  const all = [...once, ...once.map((text) => text.replace(/\P{ASCII}/gu, unicode))]
  if (secret.length <= LONGEST_SPELLED) all.push(secret.replace(/\W/gu, unicode), unicode(secret))
  // JSON in JSON.
  return Array.from(new Set([...all, ...all.map((text) => JSON.stringify(text).slice(1, -1))]))
}

/** The value and its encodings. Those that differ in upper and lower case only are one. */
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

/** Each line of a text of several lines, such as a private key; of those that only say what it is, none. */
export const linesOf = (secret: string): ReadonlyArray<string> =>
  secret.split(/\\n|\r?\n/u).map((line) => line.trim()).filter((line) => !line.startsWith("-----"))

/** What must not be shown of a secret: of an address its password, of other text each line. */
export const partsOf = (secret: string): ReadonlyArray<string> => {
  // One of Postgres may have a user and no host, which no other address may.
  if (URL.canParse(secret) && secret.includes("://") || /^postgres(?:ql)?:\/\//u.test(secret)) return passwordsOf(secret)
  return linesOf(secret)
}

/** Of an address, as they are written and as they are meant. */
export const passwordsOf = (address: string): ReadonlyArray<string> => {
  const [, password = ""] = /^[^:/]+:\/\/[^:@/?]*:([^/?]*)@/u.exec(address) ?? []
  const written = [password, ...Array.from(address.matchAll(/[?&](?:ssl)?password=([^&#]*)/gu), ([, value = ""]) => value)]
  return written.flatMap((part) => {
    try {
      return [part, decodeURIComponent(part)]
    } catch {
      return [part]
    }
  })
}
