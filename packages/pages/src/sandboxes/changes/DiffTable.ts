/** Changed lines of a file as a table: with the colours of its language, and marks on the words that changed. */
import { type Budget, fit } from "../../html/Fit.ts"
import { columnHeads, html, type Html, type Later, type Part } from "../../html/Html.ts"
import { piece } from "../../text/Code.ts"
import * as Colours from "../../text/Colours.ts"
import * as Languages from "../../text/Languages.ts"
import * as ChangedWords from "./ChangedWords.ts"
import * as Diff from "./Diff.ts"

/** Characters of a line that are shown, since people do not read minified files. */
const MAX_LINE = 400

/** Characters of lines that are coloured together. A comment or string that began before them is not recognised. */
const MAX_TOGETHER = 14 * 1024

/** Bytes of the head of a hunk. */
const HEADER_BYTES = 120
/** Bytes of a line beside the halves of its row, in a split table. */
const ROW_BYTES = 100

/** The space that is left on a page. */
export interface Space {
  lines: number
  readonly budget: Budget
}

/** One column of text, or the old text beside the new one. */
export type Layout = "unified" | "split"

export interface Look {
  readonly layout?: Layout
  /** Lines of the hunks that come before the first shown one. */
  readonly after?: number
  /** Lines that come after those of the hunks. */
  readonly left?: number
  /** The `id` of the form that each line has a button of, to comment on it: see `LineComment.ts`. */
  readonly commentForm?: string | null
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

/** The pieces, with a mark around each of the ranges. */
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
const wordsOf = (lines: ReadonlyArray<Shown>): ReadonlyMap<Shown, ChangedWords.Ranges> => {
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
      if (words === null) continue
      ranges.set(before, words.removed)
      ranges.set(after, words.added)
    }
    if (at === start) at++
  }
  return ranges
}

/** Colours of one side: the lines that it has, as they follow each other. */
const coloursOf = (lines: ReadonlyArray<Shown>, language: Languages.Language | null): Iterator<ReadonlyArray<Colours.Piece>, void> =>
  language === null
    ? lines.map(({ text }) => [{ text, colour: null }]).values()
    : Colours.lines(Colours.read(lines.map(({ text }) => text).join("\n"), language))

/** The value is the line's number now, or the negative one of a removed line. */
const commentButton = ({ after, before }: Diff.Line, form: string): Html => {
  const [value, name] = after === null ? [-(before ?? 0), `removed line ${before}`] : [after, `line ${after}`]
  return html`<button form="${form}" name="line" value="${value}" class="comment-on" aria-label="Comment on ${name}">+</button>`
}

/** A line: its row or, in a split table, the halves that it fills. A split table becomes a unified one on phones, by `style.css`. */
const rowOf = ({ ending, line, more }: Shown, content: ReadonlyArray<Part>, { commentForm = null, layout }: Look): Html => {
  const { after, before, kind } = line
  const [sign, name] = CONTENT[kind]
  const button = commentForm !== null && commentButton(line, commentForm)
  const signed = kind !== "context" && html`<span aria-hidden="true">${sign}</span><span class="unseen">${name}</span>`
  const cut = more > 0 && html`<span class="aside"> … ${more} more characters</span>`
  // A line's end is shown where it is not a plain line feed and the line changed.
  const carriageReturn = kind !== "context" && ending === "\r\n" && html`<span class="aside"> CR LF</span>`
  const noEnd = ending === "" && html`<span class="aside"> no line end at the end of the file</span>`
  const text = html`${content}${cut}${carriageReturn}${noEnd}`
  if (layout === "split") {
    const half = (side: "old" | "now", number: number | null, button: Html | false) => {
      const cell = (column: string, content: Part) => html`<td class="${column} ${side} ${kind}">${content}</td>`
      return [cell("number", number), cell("sign", [button, signed]), cell("line", html`<code>${text}</code>`)]
    }
    return html`${before !== null && half("old", before, after === null && button)}${after !== null && half("now", after, button)}`
  }
  const numbers = html`<td class="number">${before}</td><td class="number">${after}</td>`
  return html`<tr class="${kind}">${numbers}<td class="sign">${button}${signed}</td><td class="line"><code>${text}</code></td></tr>
`
}

const noHalf = html`<td class="none" colspan="3"></td>`
const split = (halves: Part): Html =>
  html`<tr>${halves}</tr>
`

/** The rows of a split table, from halves: each removed line is beside an added one. A part for each run of lines. */
const besides = function*(lines: Diff.Hunk, halves: ReadonlyArray<Html>): Generator<Html, void> {
  const kindAt = (at: number) => at < halves.length ? lines[at]?.kind : undefined
  for (let at = 0; at < halves.length;) {
    const start = at
    while (kindAt(at) === "context") at++
    const changed = at
    while (kindAt(at) === "removed") at++
    const middle = at
    while (kindAt(at) === "added") at++
    const unchanged = halves.slice(start, changed)
    if (unchanged.length > 0) yield html`<tbody>${unchanged.map(split)}</tbody>`
    const [old, now] = [halves.slice(changed, middle), halves.slice(middle, at)]
    const rows = Array.from({ length: Math.max(old.length, now.length) }, (_, i) => split([old[i] ?? noHalf, now[i] ?? noHalf]))
    if (rows.length > 0) yield html`<tbody>${rows}</tbody>`
  }
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

/** A row for each line. */
const rowsOf = function*(
  hunk: Diff.Hunk,
  language: Languages.Language | null,
  look: Look
): Generator<Html, void> {
  for (const lines of groupsOf(hunk)) {
    const words = wordsOf(lines)
    const hasOld = lines.some(({ line }) => line.kind === "removed")
    const before = coloursOf(hasOld ? lines.filter(({ line }) => line.kind !== "added") : [], language)
    const after = coloursOf(lines.filter(({ line }) => line.kind !== "removed"), language)
    for (const shown of lines) {
      const { kind } = shown.line
      const old = kind === "added" ? undefined : before.next().value
      const now = kind === "removed" ? undefined : after.next().value
      const pieces = (kind === "removed" ? old : now) ?? []
      const ranges = words.get(shown)
      const content = ranges === undefined ? pieces.map(piece) : marked(pieces, ranges, kind === "removed" ? removal : addition)
      yield rowOf(shown, content, look)
    }
  }
}

/** The shown lines. `next`: how many lines come before the first that is not shown; `null`: all are shown. */
interface Beginning {
  readonly content: Html
  readonly next: number | null
}

const unifiedHeads = columnHeads("Line before", "Line now", "Change", "Text")
const splitHeads = columnHeads("Line before", "Removed", "Text before", "Line now", "Added", "Text now")
const splitColumns = html`
<colgroup><col class="number"><col class="sign"><col><col class="number"><col class="sign"><col></colgroup>`

/** The lines after the first `after`, as many as there is space for. */
export const render = (
  path: string,
  hunks: ReadonlyArray<Diff.Hunk>,
  space: Space,
  done: (beginning: Beginning) => Part,
  look: Look = {}
): Later => {
  const { after = 0, layout, left = 0 } = look
  const isSplit = layout === "split"
  const language = Languages.ofFile(path)
  const wanted: Array<Diff.Hunk> = []
  let total = 0
  for (const hunk of hunks) {
    const rest = hunk.slice(Math.max(0, after - total))
    if (rest.length > 0) wanted.push(rest)
    total += hunk.length
  }
  const rows = function*() {
    let lines = space.lines
    for (const hunk of wanted) {
      space.budget.bytes -= HEADER_BYTES
      for (const row of rowsOf(hunk.slice(0, lines), language, look)) {
        if (isSplit) space.budget.bytes -= ROW_BYTES
        yield row
      }
      lines -= hunk.length
      if (lines <= 0) return
    }
  }
  return fit(rows(), space.budget, (row) => row, (shown) => {
    space.lines -= shown.length
    const bodies: Array<Html> = []
    let at = 0
    for (const hunk of wanted) {
      const some = shown.slice(at, at + hunk.length)
      if (some.length === 0) break
      at += some.length
      const head = html`<tr class="hunk"><td colspan="${isSplit ? 6 : 4}">${Diff.headerOf(hunk.slice(0, some.length))}</td></tr>`
      bodies.push(
        isSplit
          ? html`<tbody>${head}</tbody>
${[...besides(hunk, some)]}`
          : html`<tbody>${head}
${some}</tbody>`
      )
    }
    const [widths, heads] = isSplit ? [splitColumns, splitHeads] : [null, unifiedHeads]
    const table = bodies.length > 0 && html`<div class="diff-box" tabindex="0" role="region" aria-label="Changed lines of ${path}">
<table class="diff code${isSplit && " split"}"><caption class="unseen">Changed lines of ${path}</caption>${widths}
<thead class="unseen"><tr>${heads}</tr></thead>
${bodies}
</table></div>`
    const hidden = total + left - after - shown.length
    const content = html`${table}
${hidden > 0 && html`<p class="warning">${hidden} more lines hidden.</p>`}`
    return done({ content, next: hidden > 0 ? after + shown.length : null })
  })
}
