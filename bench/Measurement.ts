/** One row of the table of `npm run bench`: what was measured, beside what it is compared with. */

/** Samples of one round each, in the row's unit, in the order in which they were taken. */
export interface Side {
  readonly name: string
  readonly samples: ReadonlyArray<number>
}

export interface Measurement {
  /** Unique and stable: names the row for `--only`, in the JSON and among the kept ratios. Lower case with dashes. */
  readonly id: string
  readonly what: string
  readonly unit: "requests/s" | "events/s" | "a minute" | "ms" | "s" | "µs" | "MB" | "KB"
  /** Which of two samples is the better one. */
  readonly better: "higher" | "lower"
  readonly ours: Side
  /** `null`: the row is held to a limit alone. Otherwise measured in the same run, in rounds that take turns with ours. */
  readonly theirs: Side | null
  /**
   * The goals: `times`, for the ratio of medians, which is ours over theirs where higher is better and theirs over ours where lower is;
   * `most` and `least`, for our median, in the row's unit. None: shown for its own sake.
   */
  readonly reach: {
    readonly times?: number
    readonly most?: number
    readonly least?: number
  }
  /** Further figures of both sides for the JSON and the table's last column, such as CPU µs a request, p99 ms, durability. */
  readonly notes?: Readonly<Record<string, number | string>>
}
