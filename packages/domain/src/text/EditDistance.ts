/** Suggestions for a misspelled name. */

/** The number of letters inserted, left out, replaced or swapped with the next one (optimal string alignment). */
const distance = (from: string, to: string): number => {
  let before: ReadonlyArray<number> = []
  let last: ReadonlyArray<number> = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 0; i < from.length; i++) {
    const row = [i + 1]
    for (let j = 0; j < to.length; j++) {
      const isSwapped = from[i] === to[j - 1] && from[i - 1] === to[j]
      row.push(Math.min(
        (last[j + 1] ?? Infinity) + 1,
        (row[j] ?? Infinity) + 1,
        (last[j] ?? Infinity) + (from[i] === to[j] ? 0 : 1),
        isSwapped ? (before[j - 1] ?? Infinity) + 1 : Infinity
      ))
    }
    before = last
    last = row
  }
  return last.at(-1) ?? Infinity
}

/** The candidate with the smallest distance; `null` if all are too far. */
export const nearest = (given: string, candidates: ReadonlyArray<string>): string | null => {
  const [first] = candidates.map((name) => ({ name, far: distance(given, name) })).sort((a, b) => a.far - b.far)
  return first !== undefined && first.far <= Math.max(2, Math.floor(given.length / 4)) ? first.name : null
}
