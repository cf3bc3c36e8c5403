/**
 * Markdown of agents as HTML. markdown-it reads it, since it is the one maintained reader that bounds nesting and takes every text in
 * about linear time; what it read becomes HTML by our templates alone, so that nothing an agent writes is markup by itself. Raw HTML,
 * references and links elsewhere than to the web stay the text that they are; an image is a link. Everything hidden is shown.
 */
import { visible } from "@slipway/domain/text/EscapeInvisible"
import MarkdownIt, { type MarkdownIt as Reader, type Token } from "markdown-it"
import type { Chunked } from "../html/CooperativeRender.ts"
import { html, type Html, type Part } from "../html/Html.ts"
import { beginning, type HtmlBudget } from "../html/HtmlBudget.ts"
import * as Code from "./Code.ts"
import * as Languages from "./Languages.ts"

/** Characters. A longer text is shown as it was written: the worst of this length take 20 ms (2026-11-23). */
export const MAX_LENGTH = 16 * 1024

/** Characters of one paragraph; a longer one is text alone. It is read in one go. */
const MAX_PARAGRAPH = 8 * 1024

/** A longer look for what closes it is taken at each. */
const MAX_BRACKETS = 600

/** Characters that a token counts for, beside its text. */
const TOKEN_CHARACTERS = 8

/** Bars times lines of a text: a row of two characters makes as many cells as its table has columns. */
const MAX_CELLS = 6_000

/** Shown of a fence's name. */
const MAX_NAME = 30

const isLink = (url: string) => /^https?:\/\/[^/]/iu.test(url)

const reader = (rules: ReadonlyArray<string>): Reader => {
  const made = new MarkdownIt({ html: false, linkify: true, breaks: true })
  // A reference would take its line out of the text.
  made.disable(["reference", ...rules])
  made.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false })
  for (const schema of ["ftp:", "mailto:", "//"]) made.linkify.add(schema, null)
  made.validateLink = isLink
  return made
}
/** Reads paragraphs, and leaves what stands in them as it is. */
const blocks = (rules: ReadonlyArray<string>): Reader => {
  const made = reader(rules)
  made.core.ruler.enableOnly(["normalize", "block"])
  return made
}
const whole = blocks([])
const withoutTables = blocks(["table"])
/** Reads what stands in paragraphs. */
const inline = reader([])
inline.core.ruler.enableOnly(["inline", "linkify", "text_join"])

/** The tokens of a text, read paragraph by paragraph. */
const read = function*(text: string): Chunked<ReadonlyArray<Token>> {
  const tokens = (mayHaveTables(text) ? whole : withoutTables).parse(text, {})
  yield text.length
  for (const token of tokens) {
    if (token.type !== "inline") continue
    if (token.content.length > MAX_PARAGRAPH) {
      const plain = new inline.core.State("", inline, {})
      token.children = [Object.assign(new plain.Token("text", "", 0), { content: token.content })]
    } else {
      const state = new inline.core.State("", inline, {})
      state.tokens = [token]
      inline.core.process(state)
    }
    yield token.content.length
  }
  return tokens
}

const mayHaveTables = (text: string): boolean => {
  let [bars, most, lines] = [0, 0, 1]
  for (const char of text) {
    if (char === "|") most = Math.max(most, ++bars)
    if (char !== "\n") continue
    lines++
    bars = 0
  }
  return most > 0 && (most + 1) * lines <= MAX_CELLS
}

const attribute = (token: Token, name: string): string | null => {
  const value = token.attrGet(name)
  return value === null ? null : String(value)
}

const linkTo = (href: string, title: string | null, content: Part): Html =>
  html`<a href="${href}" rel="noreferrer noopener nofollow"${title !== null && html` title="${visible(title)}"`}>${content}</a>`

const listOf = (open: Token, content: Part): Html => {
  const start = open.attrGet("start")
  if (open.tag === "ul") return html`<ul>${content}</ul>`
  return html`<ol${start !== null && html` start="${start}"`}>${content}</ol>`
}

const alignOf = (open: Token): string | false => /^text-align:(center|right)$/u.exec(attribute(open, "style") ?? "")?.[1] ?? false

/** An element around what stands within it. */
const around = (open: Token, content: ReadonlyArray<Part>): Part => {
  switch (open.type) {
    case "paragraph_open":
      return open.hidden ? [content, "\n"] : html`<p>${content}</p>\n`
    // Beneath the headings of the page, which say where on it somebody is.
    case "heading_open":
      return html`<p class="heading ${open.tag}">${content}</p>\n`
    case "bullet_list_open":
    case "ordered_list_open":
      return listOf(open, content)
    case "list_item_open":
      return html`<li>${content}</li>\n`
    case "blockquote_open":
      return html`<blockquote>${content}</blockquote>\n`
    case "table_open":
      return html`<div class="table-box" tabindex="0" role="group" aria-label="Table"><table>${content}</table></div>\n`
    case "thead_open":
      return html`<thead>${content}</thead>`
    case "tbody_open":
      return html`<tbody>${content}</tbody>`
    case "tr_open":
      return html`<tr>${content}</tr>\n`
    case "th_open":
    case "td_open": {
      const align = alignOf(open)
      const aligned = align !== false && html` class="${align}"`
      // An empty head is a plain cell.
      return open.tag === "th" && content.length > 0 ? html`<th scope="col"${aligned}>${content}</th>` : html`<td${aligned}>${content}</td>`
    }
    case "em_open":
      return html`<em>${content}</em>`
    case "strong_open":
      return html`<strong>${content}</strong>`
    case "s_open":
      return html`<s>${content}</s>`
    case "link_open":
      return linkTo(attribute(open, "href") ?? "", attribute(open, "title"), content)
    default:
      return content
  }
}

/** A token without content tokens. */
const leaf = function*(token: Token): Chunked<Part> {
  switch (token.type) {
    case "softbreak":
    case "hardbreak":
      return html`<br>\n`
    case "hr":
      return html`<hr>\n`
    case "code_inline":
      return html`<code>${token.content}</code>`
    case "code_block":
      return yield* Code.block(token.content, null)
    case "fence": {
      const [name = ""] = token.info.trim().split(/\s/u)
      const label = token.info.trim().slice(0, MAX_NAME)
      return [label !== "" && html`<p class="code-name">${label}</p>`, yield* Code.block(token.content, Languages.named(name))]
    }
    default:
      return token.content
  }
}

/** A link to the image: loading it would tell its server that the page is read. Within a link only its name. */
const imageOf = (token: Token, isInLink: boolean): Part => {
  const name = token.content.trim() === "" ? "Image" : token.content
  return isInLink ? name : linkTo(attribute(token, "src") ?? "", attribute(token, "title"), name)
}

/** Without a call within a call: texts are nested as deep as their writers like. */
const shown = function*(tokens: ReadonlyArray<Token>): Chunked<ReadonlyArray<Part>> {
  const top: Array<Part> = []
  const within: Array<{ readonly open: Token; readonly content: Array<Part> }> = []
  for (const token of tokens) {
    if (token.nesting === 1) {
      within.push({ open: token, content: [] })
      continue
    }
    const closed = token.nesting === -1 ? within.pop() : undefined
    const made = closed !== undefined
      ? around(closed.open, closed.content)
      : token.type === "inline"
      ? yield* shown(token.children ?? [])
      : token.type === "image"
      ? imageOf(token, within.some(({ open }) => open.type === "link_open"))
      : yield* leaf(token)
    yield TOKEN_CHARACTERS + (closed === undefined && token.type !== "inline" ? token.content.length : 0)
    if (Array.isArray(made) && made.length === 0) continue
    ;(within.at(-1)?.content ?? top).push(made)
  }
  return top
}

/** Why it is shown as it was written; `null`: it is read. */
const tooMuch = (text: string): string | null =>
  text.length > MAX_LENGTH
    ? `Longer than ${MAX_LENGTH / 1024} kB`
    : text.split("[", MAX_BRACKETS + 2).length > MAX_BRACKETS + 1
    ? "Too many brackets"
    : null

const made = function*(text: string): Chunked<Html> {
  return html`<div class="markdown">${yield* shown(yield* read(text))}</div>`
}

/** Characters of the texts that are kept, and of their HTML: more than any page shows, of a few people who look at it. */
const MAX_KEPT = 8 * 2 ** 20
const kept = new Map<string, Html>()
let keptLength = 0

const lengthOf = (text: string, page: Html): number => text.length + page.toString().length

/** The last ones are kept, since a page shows them again and again. What was used last is forgotten last. */
const keep = (text: string, page: Html): void => {
  if (kept.delete(text)) keptLength -= lengthOf(text, page)
  kept.set(text, page)
  keptLength += lengthOf(text, page)
  for (const [oldest, old] of kept) {
    if (keptLength <= MAX_KEPT) break
    kept.delete(oldest)
    keptLength -= lengthOf(oldest, old)
  }
}

/** As much of it as there is room for, and how many of its characters that is. */
export const render = function*(text: string, budget: HtmlBudget): Chunked<{ readonly shown: Html; readonly length: number }> {
  const why = tooMuch(text)
  if (why === null) {
    const page = kept.get(text) ?? (yield* made(text))
    keep(text, page)
    if (budget.take(page)) return { shown: page, length: text.length }
  }
  const { length, shown } = yield* beginning(text, budget)
  return {
    shown: html`<p class="fine">${why ?? "Too large"}: shown as it was written.</p>
<div class="as-written">${shown}</div>`,
    length
  }
}
