/** Texts for a terminal: tables and lines. Loads no Effect, because commands that only ask a server need none. */
import { HIDDEN, visible } from "@slipway/domain/text/EscapeInvisible"

/** Columns as wide as their widest cell, with two spaces between them. A row stays one line: line feeds in cells become `⏎`. */
export const columns = (given: ReadonlyArray<ReadonlyArray<string>>): string => {
  const rows = given.map((row) => row.map((cell) => visible(cell.replaceAll("\n", " ⏎ "))))
  const widths: Array<number> = []
  for (const row of rows) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length))
  return rows.map((row) => row.map((cell, i) => i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n")
}

const hidden = new RegExp(HIDDEN, "gu")
const escaped = (text: string): string =>
  Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")

/** One line of JSON. Invisible and control characters are escaped; the value is the same. */
export const jsonLine = (value: unknown): string => JSON.stringify(value).replace(hidden, escaped)

const CHARACTERS = 60

/** A text in the column of a table, which may leave out its end. */
export const beginning = (text: string): string => text.length <= CHARACTERS ? text : `${text.slice(0, CHARACTERS).toWellFormed()}…`

/** Quotes a word for a shell. */
export const shellWord = (word: string): string =>
  /^[\w.:/@%+=][\w.:/@%+=-]*$/u.test(word) ? word : `'${visible(word).replaceAll("'", String.raw`'\''`)}'`
