/** A patch as git writes it, file by file. Our own git made it, yet all that it names and holds was written by agents. Pure. */
import type { Steps } from "../../html/Html.ts"
import type { Hunk, Line } from "./Diff.ts"

export interface PatchedFile {
  readonly path: string
  /** The earlier name of a renamed file. */
  readonly previousPath: string | null
  readonly status: "added" | "deleted" | "modified" | "renamed"
  /** The contents before and now, as git names them; empty: the content did not change, or is not told. */
  readonly blobs: string
  /** Lines, where they were counted. */
  readonly additions: number
  readonly deletions: number
  readonly hunks: ReadonlyArray<Hunk>
  /** Lines that are counted but not kept in `hunks`. */
  readonly left: number
  /** Why there are no hunks, if there are none to show. */
  readonly note: "binary" | "protected" | "large" | null
}

/** How much of a patch is read. */
export interface Extent {
  /** The number of files that are read, {@link MAX_FILES} by default. */
  readonly files?: number
  /** Lines of each file that are kept: each takes as much memory as a hundred characters. */
  readonly lines: number
  /** The file of which all lines are kept. */
  readonly whole?: string | null
}

const MAX_FILES = 500

/** Bytes of one file's part of a patch. Of a longer part only the head is read. */
const MAX_FILE = 512 * 1024

/** Lines that are read in one go. */
const STEP = 256

const START = "diff --git "

/** Our git writes this line instead of a protected file. */
const COMMENT = "# Protected file "
const PROTECTED = /^# Protected file (?<status>added|deleted|modified): (?<name>.*)$/u

/** A name as git writes it: in quotes and escaped by bytes if it has special characters. */
const unquoted = (name: string): string => {
  const bare = name.replace(/\t$/u, "")
  if (!bare.startsWith("\"")) return bare
  const escapes: Record<string, string> = { a: "\x07", b: "\b", t: "\t", n: "\n", v: "\v", f: "\f", r: "\r" }
  // A character for each byte.
  const bytes = Buffer.from(bare.slice(1, -1)).toString("latin1").replaceAll(
    /\\(?:([0-7]{3})|(.))/gsu,
    (_, octal: string | undefined, escaped: string) =>
      octal === undefined ? escapes[escaped] ?? escaped : String.fromCharCode(Number.parseInt(octal, 8) & 0xff)
  )
  return Buffer.from(bytes, "latin1").toString()
}

/** Without `a/` or `b/`; `null`: on that side there is none. */
const sideOf = (name: string): string | null => name === "/dev/null" ? null : unquoted(name).slice(2)

/** The name of a file that has the same name on both sides, which then are equally long. */
const nameOf = (heading: string): string => {
  const both = heading.slice(START.length)
  return unquoted(both.slice(0, (both.length - 1) / 2)).slice(2)
}

const RANGE = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/u

const KINDS: Readonly<Record<string, Line["kind"]>> = { " ": "context", "+": "added", "-": "removed" }

/** Line by line, without line feeds, from `at` on. */
const linesOf = function*(text: string, at: number): Generator<string, void, undefined> {
  while (at < text.length) {
    const end = text.indexOf("\n", at)
    yield text.slice(at, end === -1 ? text.length : end)
    at = end === -1 ? text.length : end + 1
  }
}

const hunksOf = function*(lines: Iterable<string>, most: number) {
  const hunks: Array<Array<Line>> = []
  let [before, after, additions, deletions, left] = [0, 0, 0, 0, 0]
  let room = most
  let read = 0
  for (const text of lines) {
    if (++read % STEP === 0) yield
    const range = text.startsWith("@@ ") ? RANGE.exec(text) : null
    if (range !== null) {
      before = Number(range[1])
      after = Number(range[2])
      if (room > 0) hunks.push([])
      continue
    }
    const hunk = hunks.at(-1)
    const kind = KINDS[text[0] ?? ""]
    const last = hunk?.at(-1)
    // "\ No newline at end of file"
    if (text.startsWith("\\") && last !== undefined && left === 0) hunk?.splice(-1, 1, { ...last, text: last.text.slice(0, -1) })
    if (kind === undefined) continue
    if (kind === "added") additions++
    if (kind === "removed") deletions++
    if (room-- <= 0) {
      left++
      continue
    }
    hunk?.push({
      kind,
      before: kind === "added" ? null : before++,
      after: kind === "removed" ? null : after++,
      text: `${text.slice(1)}\n`
    })
  }
  return { hunks, additions, deletions, left }
}

const NO_LINES = { hunks: [], additions: 0, deletions: 0, left: 0 }

const fileOf = function*(section: Uint8Array, { lines: most, whole = null }: Extent): Steps<PatchedFile> {
  const isLarge = section.length > MAX_FILE
  const text = new TextDecoder().decode(section.subarray(0, MAX_FILE)).replace(/\n$/u, "")
  const { name, status } = PROTECTED.exec(text)?.groups ?? {}
  if (name !== undefined) {
    return { path: unquoted(name), previousPath: null, status: status as PatchedFile["status"], blobs: "", ...NO_LINES, note: "protected" }
  }
  const first = text.indexOf("\n@@ ")
  const head = [...linesOf(first === -1 ? text : text.slice(0, first), 0)]
  yield
  const after = (start: string) => head.find((line) => line.startsWith(start))?.slice(start.length)
  const [from, to] = [after("rename from "), after("rename to ")]
  const side = (start: string) => sideOf(after(start) ?? "/dev/null")
  const path = to !== undefined ? unquoted(to) : side("+++ ") ?? side("--- ") ?? nameOf(head[0] ?? "")
  const found = isLarge || first === -1 ? NO_LINES : yield* hunksOf(linesOf(text, first + 1), path === whole ? Infinity : most)
  return {
    path,
    previousPath: from === undefined ? null : unquoted(from),
    status: from !== undefined
      ? "renamed"
      : after("new file mode ") !== undefined
      ? "added"
      : after("deleted file mode ") !== undefined
      ? "deleted"
      : "modified",
    blobs: after("index ") ?? "",
    ...found,
    note: isLarge
      ? "large"
      : after("Binary files ") !== undefined
      ? "binary"
      : null
  }
}

/** The files of a patch, from the first. */
export const read = function*(patch: Uint8Array, extent: Extent): Steps<ReadonlyArray<PatchedFile>> {
  const bytes = Buffer.from(patch.buffer, patch.byteOffset, patch.length)
  const { files: most = MAX_FILES } = extent
  const found: Array<PatchedFile> = []
  const starts = (text: string) => bytes.subarray(0, text.length).toString() === text
  /** Finds the next one after a place. The last find is kept: a patch without any is not searched to its end for each file. */
  const finding = (text: string) => {
    let known = 0
    return (at: number) => known > at ? known : known = (bytes.indexOf(`\n${text}`, at) + 1) || bytes.length
  }
  const [nextFile, nextComment] = [finding(START), finding(COMMENT)]
  for (let at = starts(START) || starts(COMMENT) ? 0 : bytes.length; at < bytes.length && found.length < most;) {
    // No line of a file begins so, because each has a mark before it.
    const end = Math.min(nextFile(at), nextComment(at))
    found.push(yield* fileOf(bytes.subarray(at, end), extent))
    at = end
  }
  return found
}
