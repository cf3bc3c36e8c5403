/**
 * API keys as text (docs/decisions/9): a prefix, 256 random bits in base62, and a checksum that detects invalid keys without a query.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Ids } from "../../ids/Ids.ts"
import { BASE62, draw } from "./Secret.ts"

const CHECKSUM_LENGTH = 6
const FORM = /^sbx_(?:live|test)_[0-9A-Za-z]{49}$/u

/** A table by byte: computed bit by bit, a key's checksum would take longer than its digest. */
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >>> 1 ^ 0xedb88320 : crc >>> 1
  return crc
})

/** CRC-32 (ISO 3309, as in zip and PNG) of ASCII text. */
const crc32 = (ascii: string): number => {
  let crc = 0xffffffff
  for (let i = 0; i < ascii.length; i++) crc = crc >>> 8 ^ CRC_TABLE[(crc ^ ascii.charCodeAt(i)) & 0xff]!
  return (crc ^ 0xffffffff) >>> 0
}

const checksum = (body: string): string => {
  let rest = crc32(body)
  let digits = ""
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = BASE62.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** A new secret. It is shown once; only its digest is stored. */
export const mint = (ids: Pick<Ids["Service"], "random">, kind: "live" | "test"): Effect.Effect<Redacted.Redacted> =>
  Effect.map(draw(ids), (secret) => {
    const body = `sbx_${kind}_${secret}`
    return Redacted.make(body + checksum(body))
  })

/** Whether the text has the form of a key. False for a wrong checksum. */
const isWellFormed = (candidate: string): boolean =>
  FORM.test(candidate) && checksum(candidate.slice(0, -CHECKSUM_LENGTH)) === candidate.slice(-CHECKSUM_LENGTH)

/** The public part of a key: its kind and its last four characters. */
export const hint = (key: Redacted.Redacted): { readonly prefix: string; readonly last4: string } => {
  const text = Redacted.value(key)
  return { prefix: text.slice(0, 9), last4: text.slice(-4) }
}

/** The result of parsing an `Authorization` header, before any query. */
export type Credential =
  /** No header, or another scheme. */
  | { readonly _tag: "None" }
  /** The text cannot be a key; no query is needed. */
  | { readonly _tag: "Malformed" }
  | { readonly _tag: "Key"; readonly key: Redacted.Redacted }

/** The key in an `Authorization` header: scheme in any case, one space, nothing after it. */
export const fromHeader = (header: string | undefined): Credential => {
  if (header === undefined || !/^bearer(?: |$)/iu.test(header)) return { _tag: "None" }
  const candidate = header.slice("bearer ".length)
  return isWellFormed(candidate) ? { _tag: "Key", key: Redacted.make(candidate) } : { _tag: "Malformed" }
}
