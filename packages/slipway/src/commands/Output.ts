/** What the commands print: tables and sentences for people, one JSON value for programs. */
import { visible } from "@slipway/domain/Visible"
import { Console, type Effect } from "effect"

/** Columns as wide as their widest cell, two spaces between them. A row stays one line: line feeds in cells are shown as `⏎`. */
export const columns = (given: ReadonlyArray<ReadonlyArray<string>>): string => {
  const rows = given.map((row) => row.map((cell) => visible(cell.replaceAll("\n", " ⏎ "))))
  const widths: Array<number> = []
  for (const row of rows) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length))
  return rows.map((row) => row.map((cell, i) => i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n")
}

/** `json`: exactly one JSON value on standard output; else `text`, which does nothing to a terminal but be seen. */
export const print = (json: boolean, value: unknown, text: () => string): Effect.Effect<void> =>
  Console.log(json ? JSON.stringify(value) : visible(text()))
