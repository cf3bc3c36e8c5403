/** Suggestions for a misspelled name. */

/** The number of letters inserted, left out, replaced or swapped with the next one (optimal string alignment). */
const distance = (from: string, to: string): number => {
  let before: ReadonlyArray<number> = []
  let last: ReadonlyArray<number> = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1]
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1))
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]) least = Math.min(least, (before[j - 2] ?? 0) + 1)
      row.push(least)
    }
    before = last
    last = row
  }
  return last[to.length] ?? 0
}

/** The candidate with the smallest distance; `null` if all are too far. */
export const nearest = (given: string, candidates: ReadonlyArray<string>): string | null => {
  const [first] = candidates.map((name) => ({ name, far: distance(given, name) })).sort((a, b) => a.far - b.far)
  return first !== undefined && first.far <= Math.max(2, Math.floor(given.length / 4)) ? first.name : null
}
