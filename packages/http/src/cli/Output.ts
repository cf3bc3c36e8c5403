/** What the commands print: tables and sentences for people, one JSON value for programs. */
import { Console, type Effect } from "effect"

/** Columns as wide as their widest cell, two spaces between them. */
export const columns = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths: Array<number> = []
  for (const row of rows) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length))
  return rows.map((row) => row.map((cell, i) => i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n")
}

/** `json`: exactly one JSON value on standard output; else `text`. */
export const print = (json: boolean, value: unknown, text: () => string): Effect.Effect<void> =>
  Console.log(json ? JSON.stringify(value) : text())
