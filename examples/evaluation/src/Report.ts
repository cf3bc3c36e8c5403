/** The results as a table. */

export interface Result {
  readonly instance_id: string
  readonly sandbox: string
  readonly turn: string
  readonly solved: boolean
  readonly why: string
  readonly costMicroUsd: number
  readonly millis: number
}

const dollars = (micro: number) => `$${(micro / 1e6).toFixed(2)}`
const seconds = (millis: number) => `${(millis / 1000).toFixed(1)} s`

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

/** Control characters, which names of tests may have, are left out. */
const plain = (text: string) => text.replaceAll(/\p{C}/gu, "")

export const table = (results: ReadonlyArray<Result>): string => {
  const rows = [
    ["TASK", "SOLVED", "COST", "TIME", "SANDBOX", "WHY NOT"],
    ...results.map(({ costMicroUsd, instance_id, millis, sandbox, solved, why }) => [
      instance_id,
      solved ? "yes" : "no",
      dollars(costMicroUsd),
      seconds(millis),
      sandbox,
      plain(why).slice(0, 80)
    ])
  ]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()).join("\n")
}

export const summary = (results: ReadonlyArray<Result>): string => {
  const solved = results.filter((result) => result.solved).length
  const cost = results.reduce((sum, { costMicroUsd }) => sum + costMicroUsd, 0)
  const share = results.length === 0 ? 0 : 100 * solved / results.length
  return `${solved} of ${results.length} solved (${share.toFixed(1)} %), ${dollars(cost)} in all, ` +
    `${seconds(median(results.map(({ millis }) => millis)))} a task (median)`
}
