/** Files that an agent leaves for people (docs/decisions/32): their names, the types that a browser may show, and which are kept. */
import * as DateTime from "effect/DateTime"
import { IMAGE_TYPES } from "../../models/rules/Images.ts"
import { utf8Length } from "../../text/Utf8.ts"
import { imageType } from "./UploadedFile.ts"

/** Artifacts of one sandbox. */
export const MAX_ARTIFACTS = 50
/** Bytes of the artifacts of one sandbox together. */
export const MAX_ARTIFACT_BYTES = 200 * 1024 * 1024
/** Bytes of a name: a path below the folder, with `/` between names. */
export const MAX_ARTIFACT_NAME_BYTES = 255

/** The first bytes that {@link artifactType} reads. */
export const ARTIFACT_HEAD_BYTES = 4096

const UNKNOWN_TYPE = "application/octet-stream"
const TEXT_TYPE = "text/plain"

/** The types that a page shows in itself. Every other artifact is a download. */
export const SHOWN_TYPES: ReadonlySet<string> = new Set([...IMAGE_TYPES, "image/avif", "video/mp4", "video/webm", TEXT_TYPE])

/** Controls, characters that change how a line is shown, unpaired surrogates, the sign of undecodable bytes, and `\`. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\ufffd\\]/u

/** Whether an artifact may have this name: a relative path of at most {@link MAX_ARTIFACT_NAME_BYTES} without unsafe characters. */
export const isArtifactName = (name: string): boolean =>
  utf8Length(name) <= MAX_ARTIFACT_NAME_BYTES && !UNSAFE.test(name) &&
  name.split("/").every((part) => part !== "" && part !== "." && part !== "..")

const latin1 = (bytes: Uint8Array, from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to))

/** Brands of the ISO base media format, by the type that browsers take them for. */
const BRANDS: ReadonlyArray<readonly [type: string, brand: RegExp]> = [
  ["image/avif", /^avi[fs]$/u],
  ["video/mp4", /^(?:isom|iso[2-9]|mp4[12]|avc1|M4V |dash)$/u]
]

const mediaFile = (head: Uint8Array): string | null => {
  if (latin1(head, 4, 8) === "ftyp") return BRANDS.find(([, brand]) => brand.test(latin1(head, 8, 12)))?.[0] ?? null
  // EBML, with the type of the document in its header.
  return latin1(head, 0, 4) === "\x1a\x45\xdf\xa3" && latin1(head, 4, 64).includes("\x42\x82\x84webm") ? "video/webm" : null
}

/** Names of documents that a browser would run or load from. They are downloads, also if they begin as text. */
const DOCUMENT_NAME = /\.(?:x?html?|xht|shtml|svgz?|xml|xsl|xslt|mht|mhtml|js|mjs|css|swf|pdf)$/iu

/** Characters that no text has: controls except tab, line feed, form feed, carriage return and escape. */
// eslint-disable-next-line no-control-regex -- It is about them.
const BINARY = /[\u0000-\u0008\u000b\u000e-\u001a\u001c-\u001f]/u

const isText = (name: string, head: Uint8Array): boolean => {
  if (DOCUMENT_NAME.test(name)) return false
  try {
    // `stream`: the head of a larger file may end within a character.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: head.length >= ARTIFACT_HEAD_BYTES })
    return !BINARY.test(text) && !text.trimStart().startsWith("<")
  } catch {
    return false
  }
}

/**
 * The media type of an artifact: one of {@link SHOWN_TYPES} by its first bytes, else `application/octet-stream`. `head`: the first
 * {@link ARTIFACT_HEAD_BYTES}, or all of a smaller file. A name only turns text into a download, and decides nothing else.
 */
export const artifactType = (name: string, head: Uint8Array): string =>
  imageType(head) ?? mediaFile(head) ?? (isText(name, head) ? TEXT_TYPE : UNKNOWN_TYPE)

/**
 * The artifacts after a collection, by name. The files that were found are kept: a file replaces an earlier one with the same name.
 * Earlier artifacts without a file stay while there is room, those that were stored last first. `found` is within the limits.
 */
export const keptArtifacts = <A extends { readonly name: string; readonly size: number; readonly createdAt: DateTime.Utc }>(
  found: ReadonlyArray<A>,
  earlier: ReadonlyArray<A>
): ReadonlyArray<A> => {
  const names = new Set(found.map(({ name }) => name))
  const kept = [...found]
  let bytes = found.reduce((sum, { size }) => sum + size, 0)
  const others = earlier.filter(({ name }) => !names.has(name))
    .sort((a, b) => DateTime.Order(b.createdAt, a.createdAt) || (a.name < b.name ? -1 : 1))
  for (const one of others) {
    if (kept.length >= MAX_ARTIFACTS || bytes + one.size > MAX_ARTIFACT_BYTES) break
    kept.push(one)
    bytes += one.size
  }
  return kept.sort((a, b) => a.name < b.name ? -1 : 1)
}
