/** What changed in a text, by lines, as reviewers read it: hunks with a little of what is around. Pure. */
import { diffArrays } from "diff"

export interface Line {
  readonly kind: "context" | "added" | "removed"
  /** Counted from 1; `null` where the line is not. */
  readonly before: number | null
  readonly after: number | null
  /** With its line feed, which only the last line of a text may lack. */
  readonly text: string
}

/** Lines that follow each other on both sides. */
type Hunk = ReadonlyArray<Line>

export interface Diff {
  readonly hunks: ReadonlyArray<Hunk>
  /** Too much to compare line by line: everything between what both begin and end with counts as replaced. */
  readonly coarse: boolean
}

/** Unchanged lines that are shown around a change, as git does. */
const CONTEXT = 3

// Both bound the time that two hostile texts of a megabyte cost: 0.1 s for the worst that the tests know (2026-11-22).
const MAX_LINES = 20_000
/** Lines added and removed. The time grows with its square. */
const MAX_EDITS = 1_000

/** Texts joined give the text; "" has none. */
const linesOf = (text: string): ReadonlyArray<string> => text.match(/[^\n]*\n|[^\n]+$/gu) ?? []

interface Run {
  readonly kind: Line["kind"]
  readonly lines: ReadonlyArray<string>
}

/** How many elements both have in common at the beginning. */
const commonStart = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  const shorter = Math.min(a.length, b.length)
  for (let i = 0; i < shorter; i++) if (a[i] !== b[i]) return i
  return shorter
}

const replaced = (before: ReadonlyArray<string>, after: ReadonlyArray<string>): ReadonlyArray<Run> => {
  const start = commonStart(before, after)
  const end = commonStart(before.slice(start).toReversed(), after.slice(start).toReversed())
  return [
    { kind: "context", lines: before.slice(0, start) },
    { kind: "removed", lines: before.slice(start, before.length - end) },
    { kind: "added", lines: after.slice(start, after.length - end) },
    { kind: "context", lines: before.slice(before.length - end) }
  ]
}

/** `undefined`: it would take too long. */
const compared = (before: ReadonlyArray<string>, after: ReadonlyArray<string>): ReadonlyArray<Run> | undefined =>
  Math.max(before.length, after.length) > MAX_LINES
    ? undefined
    : diffArrays([...before], [...after], { maxEditLength: MAX_EDITS })?.map(({ added, removed, value }) => ({
      kind: added ? "added" : removed ? "removed" : "context",
      lines: value
    }))

const numbered = (runs: ReadonlyArray<Run>): ReadonlyArray<Line> => {
  let [before, after] = [0, 0]
  return runs.flatMap(({ kind, lines }) =>
    lines.map((text): Line => ({
      kind,
      before: kind === "added" ? null : ++before,
      after: kind === "removed" ? null : ++after,
      text
    }))
  )
}

const hunksOf = (lines: ReadonlyArray<Line>): ReadonlyArray<Hunk> => {
  const ranges: Array<[start: number, end: number]> = []
  for (const [i, { kind }] of lines.entries()) {
    if (kind === "context") continue
    const [start, end] = [Math.max(0, i - CONTEXT), Math.min(lines.length, i + CONTEXT + 1)]
    const last = ranges.at(-1)
    if (last !== undefined && start <= last[1]) last[1] = end
    else ranges.push([start, end])
  }
  return ranges.map(([start, end]) => lines.slice(start, end))
}

/** No hunks: both are the same. */
export const compare = (before: string, after: string): Diff => {
  const [old, now] = [linesOf(before), linesOf(after)]
  // A new or deleted file is one change, however long it is.
  const exact = old.length === 0 || now.length === 0 ? replaced(old, now) : compared(old, now)
  return { hunks: hunksOf(numbered(exact ?? replaced(old, now))), coarse: exact === undefined }
}

/** Where a hunk is, as in a patch: `@@ -<first line>,<lines> +<first line>,<lines> @@`. */
export const headerOf = (hunk: Hunk): string => {
  const side = (numbers: ReadonlyArray<number | null>) => {
    const lines = numbers.filter((number) => number !== null)
    return `${lines[0] ?? 0},${lines.length}`
  }
  return `@@ -${side(hunk.map(({ before }) => before))} +${side(hunk.map(({ after }) => after))} @@`
}
