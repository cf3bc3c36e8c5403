/** The name of an uploaded file in its `content-disposition` (RFC 6266). */

const EXTENDED = /(?:^|;)\s*filename\*\s*=\s*utf-8'[^']*'([^;\s]*)/iu
const QUOTED = /(?:^|;)\s*filename\s*=\s*"((?:[^"\\]|\\.)*)"/iu
const TOKEN = /(?:^|;)\s*filename\s*=\s*([^\s;"]+)/iu

const decoded = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** Node gives the bytes of headers as Latin-1; clients send UTF-8. */
const utf8 = (text: string): string => {
  const read = Buffer.from(text, "latin1").toString("utf8")
  return read.includes("\ufffd") ? text : read
}

/** The name as it was sent; empty: there is none. */
export const nameIn = (header: string | undefined): string => {
  if (header === undefined) return ""
  const extended = EXTENDED.exec(header)?.[1]
  const name = extended === undefined ? null : decoded(extended)
  return name ?? utf8(QUOTED.exec(header)?.[1]?.replaceAll(/\\(.)/gu, "$1") ?? TOKEN.exec(header)?.[1] ?? "")
}
