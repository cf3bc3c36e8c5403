/** The name and type of an uploaded file, made safe: a name without a folder, and a media type that its bytes do not contradict. */
import { IMAGE_TYPES } from "../../models/rules/Images.ts"
import { utf8Length } from "../../text/Utf8.ts"

/** Bytes of one file. */
export const MAX_FILE_BYTES = 20 * 1024 * 1024

/** The first bytes that {@link imageType} needs. */
export const HEAD_BYTES = 12

/** Bytes of a name: file systems take 255, and the box may add a number. */
const MAX_NAME_BYTES = 200

const UNKNOWN_TYPE = "application/octet-stream"
const UNNAMED = "file"

/** Characters that have no place in a name of a file: separators, controls, and characters that change how a line is shown. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}/\\]/gu

/** A name without a folder and without characters that cannot be seen. Its end, with the extension, is kept. */
export const fileName = (given: string): string => {
  const name = (given.split(/[/\\]/u).at(-1) ?? "").replace(UNSAFE, "").trim()
  const letters = Array.from(name)
  while (utf8Length(letters.join("")) > MAX_NAME_BYTES) letters.splice(Math.max(0, letters.length - 24), 1)
  const kept = letters.join("")
  return /^\.*$/u.test(kept) ? UNNAMED : kept
}

const startsWith = (bytes: Uint8Array, text: string, at = 0): boolean =>
  Array.from(text).every((letter, i) => bytes[at + i] === letter.charCodeAt(0))

/** The image that these first bytes begin; `null`: none of those that models take. Nothing is decoded. */
export const imageType = (head: Uint8Array): string | null => {
  if (startsWith(head, "\x89PNG\r\n\x1a\n")) return "image/png"
  if (startsWith(head, "\xff\xd8\xff")) return "image/jpeg"
  if (startsWith(head, "GIF87a") || startsWith(head, "GIF89a")) return "image/gif"
  return startsWith(head, "RIFF") && startsWith(head, "WEBP", 8) ? "image/webp" : null
}

const TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$/u

/** The media type of a file: the bytes decide about images, the upload about others. `given`: a `content-type`, or nothing. */
export const mediaType = (given: string | undefined, head: Uint8Array): string => {
  const image = imageType(head)
  if (image !== null) return image
  const type = (given ?? "").split(";")[0]?.trim().toLowerCase() ?? ""
  return TYPE.test(type) && !IMAGE_TYPES.has(type) ? type : UNKNOWN_TYPE
}

const numbered = (name: string, n: number): string => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? `${name}-${n}` : `${name.slice(0, dot)}-${n}${name.slice(dot)}`
}

/**
 * The names of a sandbox's files in its box, by id. `files`: all of them, in the order in which they were added, so that later files never
 * change the name of an earlier one. A name that is taken gets a number. Names that differ only in case count as equal.
 */
export const boxNames = (files: ReadonlyArray<{ readonly id: string; readonly name: string }>): ReadonlyMap<string, string> => {
  const taken = new Set<string>()
  return new Map(files.map(({ id, name }) => {
    let free = name
    for (let n = 2; taken.has(free.toLowerCase()); n++) free = numbered(name, n)
    taken.add(free.toLowerCase())
    return [id, free]
  }))
}
