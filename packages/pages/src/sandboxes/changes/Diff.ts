/** The differences of two texts by lines, for reviewers: hunks with some lines of context. Pure. */
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

// Both bound what two hostile texts cost.
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

/** For each line whether it is on the other side as well. */
interface Staying {
  readonly old: Uint8Array
  readonly now: Uint8Array
}

/**
 * As many as can stay (E. W. Myers, An O(ND) Difference Algorithm and Its Variations, 1986). `null`: there are more than
 * {@link MAX_EDITS} others.
 */
const compared = function*(old: Int32Array, now: Int32Array): Steps<Staying | null> {
  const middle = MAX_EDITS + 1
  /** By diagonal, which is a line of the old text less one of the new: how many lines of the old text are dealt with. */
  const reached = new Int32Array(2 * middle + 1)
  /** The state before each round. */
  const rounds: Array<Int32Array> = []
  const isBelow = (at: Int32Array, zero: number, diagonal: number, edits: number): boolean =>
    diagonal === -edits || (diagonal !== edits && (at[zero + diagonal - 1] ?? 0) < (at[zero + diagonal + 1] ?? 0))
  for (let edits = 0; edits <= MAX_EDITS; edits++) {
    yield
    rounds.push(reached.slice(middle - edits - 1, middle + edits + 2))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = isBelow(reached, middle, diagonal, edits) ? reached[middle + diagonal + 1] ?? 0 : (reached[middle + diagonal - 1] ?? 0) + 1
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++
      reached[middle + diagonal] = x
      if (x >= old.length && x - diagonal >= now.length) return stayingIn(rounds, isBelow, old.length, now.length)
    }
  }
  return null
}

/** The way back through all rounds. */
const stayingIn = (
  rounds: ReadonlyArray<Int32Array>,
  isBelow: (at: Int32Array, zero: number, diagonal: number, edits: number) => boolean,
  oldLength: number,
  nowLength: number
): Staying => {
  const staying = { old: new Uint8Array(oldLength), now: new Uint8Array(nowLength) }
  let [x, y] = [oldLength, nowLength]
  for (let edits = rounds.length - 1; edits >= 0; edits--) {
    const [reached, middle] = [rounds[edits] ?? new Int32Array(), edits + 1]
    const from = isBelow(reached, middle, x - y, edits) ? x - y + 1 : x - y - 1
    const [fromX, fromY] = [reached[middle + from] ?? 0, (reached[middle + from] ?? 0) - from]
    while (x > fromX && y > fromY) {
      staying.old[--x] = 1
      staying.now[--y] = 1
    }
    x = fromX
    y = fromY
  }
  return staying
}

const linesIn = (old: ReadonlyArray<string>, now: ReadonlyArray<string>, staying: Staying): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  let [before, after] = [0, 0]
  while (before < old.length || after < now.length) {
    if (before < old.length && staying.old[before] === 0) {
      lines.push({ kind: "removed", before: before + 1, after: null, text: old[before++] ?? "" })
    } else if (after < now.length && staying.now[after] === 0) {
      lines.push({ kind: "added", before: null, after: after + 1, text: now[after++] ?? "" })
    } else lines.push({ kind: "context", before: before + 1, after: after + 1, text: (after++, old[before++]) ?? "" })
  }
  return lines
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
    : yield* compared(a.subarray(start, oldEnd), b.subarray(start, nowEnd))
  const staying = { old: new Uint8Array(old.length).fill(1), now: new Uint8Array(now.length).fill(1) }
  staying.old.fill(0, start, oldEnd)
  staying.now.fill(0, start, nowEnd)
  if (within !== null) {
    staying.old.set(within.old, start)
    staying.now.set(within.now, start)
  }
  return { hunks: hunksOf(linesIn(old, now, staying)), coarse: !isExact && within === null }
}

/** Where a hunk is, as in a patch: `@@ -<first line>,<lines> +<first line>,<lines> @@`. */
export const headerOf = (hunk: Hunk): string => {
  const side = (numbers: ReadonlyArray<number | null>) => {
    const lines = numbers.filter((number) => number !== null)
    return `${lines[0] ?? 0},${lines.length}`
  }
  return `@@ -${side(hunk.map(({ before }) => before))} +${side(hunk.map(({ after }) => after))} @@`
}
