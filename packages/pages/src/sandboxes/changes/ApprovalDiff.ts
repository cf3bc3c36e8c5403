/**
 * The change that an approval is about, as a table of its lines. The person who decides must see all that the agent said: a diff
 * that the table cannot show in full is shown as it came. Pure.
 */
import { type Budget, later } from "../../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../../html/Html.ts"
import type { Hunk, Line } from "./Diff.ts"
import * as DiffTable from "./DiffTable.ts"

/** Lines of a change as a table. */
const MAX_LINES = 500

interface File {
  /** As the diff has them; `/dev/null` where there is none. */
  readonly before: string
  readonly after: string
  readonly hunks: ReadonlyArray<Hunk>
}

const RANGE = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$/u
const KINDS: Readonly<Record<string, Line["kind"]>> = { " ": "context", "+": "added", "-": "removed" }

/** The files of a unified diff; `null` where any of its lines is anything else than what its counts say. */
export const parse = (diff: string): ReadonlyArray<File> | null => {
  const lines = diff.replace(/\n$/u, "").split("\n")
  const files: Array<File> = []
  let at = 0
  while (at < lines.length) {
    const [before, after] = [lines[at++], lines[at++]]
    if (before?.startsWith("--- ") !== true || after?.startsWith("+++ ") !== true) return null
    const hunks: Array<Hunk> = []
    for (let range = RANGE.exec(lines[at] ?? ""); range !== null; range = RANGE.exec(lines[at] ?? "")) {
      at++
      let [old, now] = [Number(range[1]), Number(range[3])]
      const [oldEnd, nowEnd] = [old + Number(range[2] ?? 1), now + Number(range[4] ?? 1)]
      const hunk: Array<Line> = []
      while (old < oldEnd || now < nowEnd) {
        const text = lines[at++]
        const kind = KINDS[text?.[0] ?? ""]
        if (text === undefined || kind === undefined) return null
        const isLast = lines[at] === "\\ No newline at end of file"
        if (isLast) at++
        hunk.push({
          kind,
          before: kind === "added" ? null : old++,
          after: kind === "removed" ? null : now++,
          text: `${text.slice(1)}${isLast ? "" : "\n"}`
        })
      }
      if (old !== oldEnd || now !== nowEnd) return null
      hunks.push(hunk)
    }
    if (hunks.length === 0) return null
    files.push({ before: before.slice(4), after: after.slice(4), hunks })
  }
  return files
}

const namesOf = ({ after, before }: File): string => {
  if (before === after) return after
  return before === "/dev/null" ? `New file ${after}` : after === "/dev/null" ? `Deletes ${before}` : `${before} → ${after}`
}

/** A table, if the whole diff fits into it. */
export const render = (diff: string, budget: Budget): Later =>
  later(() => {
    const plain = html`<pre data-field="diff">${diff}</pre>`
    const files = parse(diff)
    if (files === null || !files.every(({ hunks }) => hunks.every((hunk) => hunk.every(DiffTable.isWhole)))) return plain
    const space = { lines: MAX_LINES, budget: { bytes: budget.bytes } }
    const tablesFrom = (i: number, tables: ReadonlyArray<Html>): Part => {
      const file = files[i]
      if (file === undefined) return html`<div data-field="diff">${tables}</div>`
      return DiffTable.render(file.after === "/dev/null" ? file.before : file.after, file.hunks, space, ({ content, next }) =>
        next !== null ? plain : tablesFrom(i + 1, [...tables, html`<p class="fine"><code>${namesOf(file)}</code></p>${content}`]))
    }
    return tablesFrom(0, [])
  })
