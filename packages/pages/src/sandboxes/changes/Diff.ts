/** The differences of two texts by lines, for reviewers: hunks with some lines of context. Pure. */
import { diffArrays } from "diff"
import type { Steps } from "../../html/Html.ts"

export interface Line {
  readonly kind: "context" | "added" | "removed"
  /** Counted from 1; `null` where the line is not. */
  readonly before: number | null
  readonly after: number | null
  /** With its line feed, which only the last line of a text may lack. */
  readonly text: string
}

/** Lines that follow each other on both sides. */
export type Hunk = ReadonlyArray<Line>

export interface Diff {
  readonly hunks: ReadonlyArray<Hunk>
  /** Too much to compare line by line: everything between what both begin and end with counts as replaced. */
  readonly coarse: boolean
}

/** Unchanged lines that are shown around a change, as git does. */
const CONTEXT = 3

// Both bound the time that two hostile texts take: some 25 ms (2026-11-29).
export const MAX_LINES = 20_000
/** Lines added and removed. The time grows with its square. */
const MAX_EDITS = 500

/** Texts joined give the text; "" has none. */
const linesOf = (text: string): ReadonlyArray<string> => text === "" ? [] : text.split(/(?<=\n)/u)

/** Equal lines have equal numbers, which are quicker to compare. */
const numbersOf = (lines: ReadonlyArray<string>, known: Map<string, number>): Int32Array =>
  Int32Array.from(lines, (line) => {
    const number = known.get(line) ?? known.size
    if (number === known.size) known.set(line, number)
    return number
  })

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

/** So many lines of the old text and of the new one: removed and added or, unchanged, on both sides. */
interface Run {
  readonly kind: "changed" | "context"
  readonly old: number
  readonly now: number
}

/** `null`: there are more than {@link MAX_EDITS} lines that were added or removed. */
const compared = (old: Int32Array, now: Int32Array): ReadonlyArray<Run> | null =>
  diffArrays([...old], [...now], { maxEditLength: MAX_EDITS })?.map(({ added, count, removed }) => ({
    kind: added || removed ? "changed" : "context",
    old: added ? 0 : count,
    now: removed ? 0 : count
  })) ?? null

const linesIn = (old: ReadonlyArray<string>, now: ReadonlyArray<string>, runs: ReadonlyArray<Run>): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  let [before, after] = [0, 0]
  for (const run of runs) {
    const [oldEnd, nowEnd] = [before + run.old, after + run.now]
    if (run.kind === "context") {
      while (before < oldEnd) lines.push({ kind: "context", before: before + 1, after: ++after, text: old[before++] ?? "" })
      continue
    }
    while (before < oldEnd) lines.push({ kind: "removed", before: before + 1, after: null, text: old[before++] ?? "" })
    while (after < nowEnd) lines.push({ kind: "added", before: null, after: after + 1, text: now[after++] ?? "" })
  }
  return lines
}

/** No hunks: both are the same. Pauses between its parts. */
export const compare = function*(before: string, after: string): Steps<Diff> {
  const [old, now] = [linesOf(before), linesOf(after)]
  yield
  const known = new Map<string, number>()
  const [a, b] = [numbersOf(old, known), numbersOf(now, known)]
  yield
  // The common beginning and end stay.
  const shorter = Math.min(a.length, b.length)
  let [start, end] = [0, 0]
  while (start < shorter && a[start] === b[start]) start++
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const [oldEnd, nowEnd] = [a.length - end, b.length - end]
  // Lines that were only added or only removed are one change of any length.
  const isExact = start === oldEnd || start === nowEnd
  const within = isExact || Math.max(old.length, now.length) > MAX_LINES
    ? null
    : compared(a.subarray(start, oldEnd), b.subarray(start, nowEnd))
  yield
  const same = (count: number): Run => ({ kind: "context", old: count, now: count })
  const changed = within ?? [{ kind: "changed", old: oldEnd - start, now: nowEnd - start }]
  const lines = linesIn(old, now, [same(start), ...changed, same(end)])
  yield
  return { hunks: hunksOf(lines), coarse: !isExact && within === null }
}

/** Where a hunk is, as in a patch: `@@ -<first line>,<lines> +<first line>,<lines> @@`. */
export const headerOf = (hunk: Hunk): string => {
  const side = (numbers: ReadonlyArray<number | null>) => {
    const lines = numbers.filter((number) => number !== null)
    return `${lines[0] ?? 0},${lines.length}`
  }
  return `@@ -${side(hunk.map(({ before }) => before))} +${side(hunk.map(({ after }) => after))} @@`
}
