/** Patches as the comparisons of the Agent Client Protocol, which have texts in place of patches. */
import type { ToolCallContent } from "@agentclientprotocol/sdk"

/** Comparisons of one patch. A patch with more is shown as text. */
const MAX_COMPARISONS = 200

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/u

/** The path behind `--- a/` or `+++ b/`; `null`: the file is not there on this side. */
const pathIn = (line: string): string | null => {
  const [path = ""] = line.slice(4).split("\t")
  return path === "/dev/null" ? null : path.replace(/^[ab]\//u, "")
}

/** Both sides of a hunk, and the number of the line behind it. A patch that was cut ends within a hunk. */
const sidesOf = (lines: ReadonlyArray<string>, from: number, before: number, after: number) => {
  const [old, now]: [Array<string>, Array<string>] = [[], []]
  let at = from
  for (; at < lines.length && (old.length < before || now.length < after); at++) {
    const line = lines[at] ?? ""
    const [mark, text] = [line.charAt(0), line.slice(1)]
    if (mark === "\\") continue
    if (mark !== "+" && mark !== "-" && mark !== " " && line !== "") break
    if (mark !== "+") old.push(text)
    if (mark !== "-") now.push(text)
  }
  return { at, old, now }
}

const ended = (lines: ReadonlyArray<string>): string => lines.length === 0 ? "" : `${lines.join("\n")}\n`

/**
 * One comparison for each hunk, with its lines of context. `locate`: the path of a file of the patch in the editor. A patch without hunks
 * that can be read, or with too many, is one text.
 */
export const ofPatch = (patch: string, locate: (path: string) => string): Array<ToolCallContent> => {
  const lines = patch.split("\n")
  const found: Array<ToolCallContent> = []
  let [old, now]: [string | null, string | null] = [null, null]
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ""
    if (line.startsWith("--- ")) old = pathIn(line)
    else if (line.startsWith("+++ ")) now = pathIn(line)
    const hunk = HUNK.exec(line)
    const path = now ?? old
    if (hunk === null || path === null) continue
    const sides = sidesOf(lines, at + 1, Number(hunk[1] ?? 1), Number(hunk[2] ?? 1))
    found.push({ type: "diff", path: locate(path), oldText: old === null ? null : ended(sides.old), newText: ended(sides.now) })
    at = sides.at - 1
  }
  return found.length === 0 || found.length > MAX_COMPARISONS ? [text(fenced(patch, "diff"))] : found
}

/** A text as the content of a tool call. */
export const text = (text: string): ToolCallContent => ({ type: "content", content: { type: "text", text } })

/** A block of code in Markdown. The fence is longer than any in the text, so that the text cannot end the block. */
export const fenced = (text: string, language = ""): string => {
  const longest = Math.max(2, ...(text.match(/`+/gu) ?? []).map((run) => run.length))
  const fence = "`".repeat(longest + 1)
  return `${fence}${language}\n${text.replace(/\n$/u, "")}\n${fence}`
}
