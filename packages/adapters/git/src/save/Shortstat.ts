/** The numbers of `git diff --shortstat`. */

export interface Counts {
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

/** Git leaves out what is zero. */
export const parse = (summary: string): Counts => {
  const count = (what: RegExp) => Number(what.exec(summary)?.[1] ?? 0)
  return {
    additions: count(/(?<!\d)(\d+) insertion/u),
    deletions: count(/(?<!\d)(\d+) deletion/u),
    changedFiles: count(/(?<!\d)(\d+) file/u)
  }
}
