/** The search in one file, whatever an agent wrote into it. Pure. */
import { type FileSearch, type FoundFile, type FoundLine, MAX_FOUND_LINE, MAX_FOUND_LINES } from "../schema/FileSearch.ts"

/** Characters of a line that are shown before the text. */
const BEFORE = 60

/** As in git: a NUL within the first 8,000 bytes means binary. */
const isBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, 8_000).includes(0)

const utf8 = new TextDecoder()

/** No character is cut in two. */
const cut = (line: string, at: number): string => {
  const start = Math.max(0, at - BEFORE)
  return line.slice(start, start + MAX_FOUND_LINE).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$|\r$/gu, "")
}

/** `null`: neither its path nor its content has the text. `content`: `null` if it is not searched. */
export const searchFile = (path: string, content: Uint8Array | null, { ignoreCase, text }: FileSearch): FoundFile | null => {
  const folded = (some: string) => ignoreCase ? some.toLowerCase() : some
  const wanted = folded(text)
  const whole = content === null || isBinary(content) ? "" : utf8.decode(content)
  const lines: Array<FoundLine> = []
  let lineCount = 0
  if (folded(whole).includes(wanted)) {
    for (const [i, line] of whole.split("\n").entries()) {
      const at = folded(line).indexOf(wanted)
      if (at === -1) continue
      if (lineCount++ < MAX_FOUND_LINES) lines.push({ number: i + 1, text: cut(line, at) })
    }
  }
  return lineCount > 0 || folded(path).includes(wanted) ? { path, lines, lineCount } : null
}
