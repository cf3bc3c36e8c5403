/** The words of a line that changed. Pure. */
import { diffArrays } from "diff"

/** Ranges of characters in a line, in order and not adjacent. */
export type Ranges = ReadonlyArray<readonly [start: number, end: number]>

/** Words of a line that are compared. A longer line counts as a new line. */
const MAX_WORDS = 200
/** Words added and removed. The time grows with its square. */
const MAX_EDITS = 80
/** The part of the shorter line that must be unchanged, or the whole line counts as new. */
const KEPT = 0.3

const wordsOf = (line: string): ReadonlyArray<string> => line.match(/[\p{L}\p{N}_]+|\s+|./gsu) ?? []

const lengthOf = (words: ReadonlyArray<string>): number => words.reduce((sum, word) => sum + word.trim().length, 0)

/** `null`: the lines have too little in common, or are too long. */
export const compare = (before: string, after: string): { readonly removed: Ranges; readonly added: Ranges } | null => {
  const [old, now] = [wordsOf(before), wordsOf(after)]
  if (old.length > MAX_WORDS || now.length > MAX_WORDS) return null
  const changes = diffArrays([...old], [...now], { maxEditLength: MAX_EDITS })
  if (changes === undefined) return null
  const kept = changes.reduce((sum, { added, removed, value }) => added || removed ? sum : sum + lengthOf(value), 0)
  if (kept === 0 || kept < KEPT * Math.min(lengthOf(old), lengthOf(now))) return null
  const [removed, added]: [Array<[number, number]>, Array<[number, number]>] = [[], []]
  let [from, to] = [0, 0]
  for (const change of changes) {
    const length = change.value.join("").length
    if (change.removed) removed.push([from, from + length])
    if (change.added) added.push([to, to + length])
    if (!change.added) from += length
    if (!change.removed) to += length
  }
  return { removed, added }
}
