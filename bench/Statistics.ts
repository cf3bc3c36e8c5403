/** Summaries of many samples. `NaN` without samples. */

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] ?? Number.NaN : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2
}

/** The median absolute deviation: how far half of the samples are from their median. */
export const deviation = (values: ReadonlyArray<number>): number => {
  const middle = median(values)
  return median(values.map((value) => Math.abs(value - middle)))
}

/** Three digits that say something, of integers all. */
export const number = (value: number): string =>
  Number.isNaN(value)
    ? ""
    : value.toFixed(Number.isInteger(value) || value >= 100 ? 0 : value < 10 ? 2 : 1).replace(/\B(?=(?:\d{3})+$)/gu, ",")
