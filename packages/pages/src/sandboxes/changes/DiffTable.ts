/** Changed lines of a file as a table: with the colours of its language, and marks on the words that changed. */
import type { Chunked } from "../../html/CooperativeRender.ts"
import { columnHeads, html, type Html, type Part } from "../../html/Html.ts"
import type { HtmlBudget } from "../../html/HtmlBudget.ts"
import { piece } from "../../text/Code.ts"
import * as Colours from "../../text/Colours.ts"
import * as Languages from "../../text/Languages.ts"
import * as ChangedWords from "./ChangedWords.ts"
import * as Diff from "./Diff.ts"

/** Characters of a line that are shown; the rest of a minified file says nothing to people. */
const MAX_LINE = 400

/** Characters of lines that get their colours together: what a comment or a string began before is not known within them. */
const MAX_TOGETHER = 14 * 1024

/** Characters that the markup of a line counts for, beside its text. */
const MARKUP = 64

/** Bytes of the head of a hunk. */
const HEADER_BYTES = 120

/** The space that is left on a page. */
export interface Space {
  lines: number
  readonly budget: HtmlBudget
}

const CONTENT = { context: [" ", "unchanged"], added: ["+", "added"], removed: ["−", "removed"] } as const

interface Shown {
  readonly line: Diff.Line
  /** As much of it as is shown, without its end. */
  readonly text: string
  /** Characters that are not shown. */
  readonly more: number
  readonly ending: string
}

const shownOf = (line: Diff.Line): Shown => {
  const ending = line.text.endsWith("\r\n") ? "\r\n" : line.text.endsWith("\n") ? "\n" : ""
  const length = line.text.length - ending.length
  // No character is cut in two.
  const isPair = (line.text.codePointAt(MAX_LINE - 1) ?? 0) > 0xffff
  const cut = length <= MAX_LINE ? length : MAX_LINE - (isPair ? 1 : 0)
  return { line, text: line.text.slice(0, cut), more: length - cut, ending }
}

/** Whether all of the line is shown. */
export const isWhole = (line: Diff.Line): boolean => shownOf(line).more === 0

/** The pieces with what lies within each of the ranges in one mark. */
const marked = (pieces: ReadonlyArray<Colours.Piece>, ranges: ChangedWords.Ranges, mark: (part: Part) => Html): ReadonlyArray<Part> => {
  const parts: Array<Part> = []
  let within: Array<Part> = []
  let [at, next] = [0, 0]
  for (const { colour, text } of pieces) {
    for (let from = 0; from < text.length;) {
      const [start, end] = ranges[next] ?? [Infinity, Infinity]
      const isMarked = start <= at + from
      const to = Math.min(text.length, (isMarked ? end : start) - at)
      const part = piece({ text: text.slice(from, to), colour })
      if (isMarked) within.push(part)
      else parts.push(part)
      if (at + to === end) {
        parts.push(mark(within))
        within = []
        next++
      }
      from = to
    }
    at += text.length
  }
  return within.length === 0 ? parts : [...parts, mark(within)]
}

const removal = (part: Part): Html => html`<del>${part}</del>`
const addition = (part: Part): Html => html`<ins>${part}</ins>`

/** The marked ranges of each line: removed lines are compared one by one with the lines that replace them. */
const wordsOf = function*(lines: ReadonlyArray<Shown>): Chunked<ReadonlyMap<Shown, ChangedWords.Ranges>> {
  const ranges = new Map<Shown, ChangedWords.Ranges>()
  for (let at = 0; at < lines.length;) {
    const start = at
    while (lines[at]?.line.kind === "removed") at++
    const middle = at
    while (lines[at]?.line.kind === "added") at++
    for (let i = 0; i < Math.min(middle - start, at - middle); i++) {
      const [before, after] = [lines[start + i], lines[middle + i]]
      if (before === undefined || after === undefined) continue
      const words = ChangedWords.compare(before.text, after.text)
      yield before.text.length + after.text.length
      if (words === null) continue
      ranges.set(before, words.removed)
      ranges.set(after, words.added)
    }
    if (at === start) at++
  }
  return ranges
}

/** Colours of one side: the lines that it has, as they follow each other. */
const coloursOf = function*(
  lines: ReadonlyArray<Shown>,
  language: Languages.Language | null
): Chunked<ReadonlyArray<ReadonlyArray<Colours.Piece>>> {
  return language === null
    ? lines.map(({ text }) => [{ text, colour: null }])
    : Colours.lines(yield* Colours.read(lines.map(({ text }) => text).join("\n"), language))
}

const rowOf = ({ ending, line: { after, before, kind }, more }: Shown, content: ReadonlyArray<Part>): Html => {
  const [sign, name] = CONTENT[kind]
  const signed = kind !== "context" && html`<span aria-hidden="true">${sign}</span><span class="unseen">${name}</span>`
  const numbers = html`<td class="number">${before}</td><td class="number">${after}</td>`
  const cut = more > 0 && html`<span class="aside"> … ${more} more characters</span>`
  // A line's end is shown where it is not a plain line feed and the line changed.
  const carriageReturn = kind !== "context" && ending === "\r\n" && html`<span class="aside"> CR LF</span>`
  const noEnd = ending === "" && html`<span class="aside"> no line end at the end of the file</span>`
  const text = html`${content}${cut}${carriageReturn}${noEnd}`
  return html`<tr class="${kind}">${numbers}<td class="sign">${signed}</td><td class="line"><code>${text}</code></td></tr>
`
}

/** Each group has as many lines as get their colours together. */
const groupsOf = (hunk: Diff.Hunk): ReadonlyArray<ReadonlyArray<Shown>> => {
  const groups: Array<Array<Shown>> = []
  let characters = Infinity
  for (const line of hunk) {
    const shown = shownOf(line)
    characters += shown.text.length
    if (characters > MAX_TOGETHER) {
      groups.push([])
      characters = shown.text.length
    }
    groups.at(-1)?.push(shown)
  }
  return groups
}

/** As many as there is room for. */
const rowsOf = function*(hunk: Diff.Hunk, language: Languages.Language | null, budget: HtmlBudget): Chunked<ReadonlyArray<Html>> {
  const rows: Array<Html> = []
  for (const lines of groupsOf(hunk)) {
    const words = yield* wordsOf(lines)
    const hasOld = lines.some(({ line }) => line.kind === "removed")
    const before = yield* coloursOf(hasOld ? lines.filter(({ line }) => line.kind !== "added") : [], language)
    const after = yield* coloursOf(lines.filter(({ line }) => line.kind !== "removed"), language)
    let [atBefore, atAfter] = [0, 0]
    for (const shown of lines) {
      const isOld = shown.line.kind === "removed"
      const pieces = (isOld ? before[atBefore] : after[atAfter]) ?? []
      if (shown.line.kind !== "added") atBefore++
      if (!isOld) atAfter++
      const ranges = words.get(shown)
      const row = rowOf(shown, ranges === undefined ? pieces.map(piece) : marked(pieces, ranges, isOld ? removal : addition))
      yield MARKUP + shown.text.length
      if (!budget.take(row)) return rows
      rows.push(row)
    }
  }
  return rows
}

/** The shown lines. `next`: how many lines come before the first that is not shown; `null`: all are shown. */
export interface Beginning {
  readonly content: Html
  readonly next: number | null
}

/** The lines after the first `after`, as many as there is space for. `left`: lines that come after those of the hunks. */
export const render = function*(
  path: string,
  hunks: ReadonlyArray<Diff.Hunk>,
  space: Space,
  after = 0,
  left = 0
): Chunked<Beginning> {
  const language = Languages.ofFile(path)
  const { budget } = space
  const bodies: Array<Html> = []
  let [begin, next] = [0, after]
  for (const hunk of hunks) {
    const wanted = hunk.slice(Math.max(0, after - begin))
    begin += hunk.length
    if (wanted.length === 0) continue
    budget.bytes -= HEADER_BYTES
    const rows = yield* rowsOf(wanted.slice(0, space.lines), language, budget)
    next += rows.length
    space.lines -= rows.length
    if (rows.length > 0) {
      bodies.push(html`<tbody><tr class="hunk"><td colspan="4">${Diff.headerOf(wanted.slice(0, rows.length))}</td></tr>
${rows}</tbody>`)
    }
    if (rows.length < wanted.length) break
  }
  const total = hunks.reduce((sum, hunk) => sum + hunk.length, left)
  const table = bodies.length > 0 && html`<div class="diff-box" tabindex="0" role="region" aria-label="Changed lines of ${path}">
<table class="diff code"><caption class="unseen">Changed lines of ${path}</caption>
<thead class="unseen"><tr>${columnHeads("Line before", "Line now", "Change", "Text")}</tr></thead>
${bodies}
</table></div>`
  const hidden = total - next
  return {
    content: html`${table}
${hidden > 0 && html`<p class="warning">${hidden} more lines are not shown.</p>`}`,
    next: hidden > 0 ? next : null
  }
}
