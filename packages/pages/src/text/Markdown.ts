/**
 * Markdown of agents as HTML. markdown-it reads it, since it is the one maintained reader that bounds nesting and takes every text in
 * about linear time; what it read becomes HTML by our templates alone, so that nothing an agent writes is markup by itself. Raw HTML,
 * references and links elsewhere than to the web stay the text that they are; an image is a link. Everything hidden is shown.
 */
import { LruCache } from "@slipway/domain/store/LruCache"
import MarkdownIt, { type MarkdownIt as Reader, type Token } from "markdown-it"
import { beginning, type Budget, cached, fit } from "../html/Fit.ts"
import { html, type Html, Later, type Part, type Steps } from "../html/Html.ts"
import * as Code from "./Code.ts"
import * as Languages from "./Languages.ts"

/** Characters. A longer text is shown as it was written: the worst of this length take 20 ms (2026-11-23). */
export const MAX_LENGTH = 16 * 1024

/** Characters of one paragraph, which is read in one go; a longer one is text alone. */
const MAX_PARAGRAPH = 8 * 1024

/** For each bracket the reader searches for the closing one. */
const MAX_BRACKETS = 600

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
/** Reads blocks, but not the text in paragraphs. */
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

/** Reads the text of a paragraph. */
const childrenOf = (token: Token): ReadonlyArray<Token> => {
  const state = new inline.core.State("", inline, {})
  if (token.content.length > MAX_PARAGRAPH) return [Object.assign(new state.Token("text", "", 0), { content: token.content })]
  state.tokens = [token]
  inline.core.process(state)
  return token.children ?? []
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
  html`<a href="${href}" rel="noreferrer noopener nofollow"${title !== null && html` title="${title}"`}>${content}</a>`

const listOf = (open: Token, content: Part): Html => {
  const start = open.attrGet("start")
  if (open.tag === "ul") return html`<ul>${content}</ul>`
  return html`<ol${start !== null && html` start="${start}"`}>${content}</ol>`
}

const alignOf = (open: Token): string | false => /^text-align:(center|right)$/u.exec(attribute(open, "style") ?? "")?.[1] ?? false

/** The element of a token that opens, with its content. */
const around = (open: Token, content: ReadonlyArray<Part>): Part => {
  switch (open.type) {
    case "paragraph_open":
      return open.hidden ? [content, "\n"] : html`<p>${content}</p>\n`
    // No `<h1>` to `<h6>`: the page has its own headings.
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
const leaf = (token: Token): Part => {
  switch (token.type) {
    case "softbreak":
    case "hardbreak":
      return html`<br>\n`
    case "hr":
      return html`<hr>\n`
    case "code_inline":
      return html`<code>${token.content}</code>`
    case "code_block":
      return Code.block(token.content, null)
    case "fence": {
      const [name = ""] = token.info.trim().split(/\s/u)
      const label = token.info.trim().slice(0, MAX_NAME)
      return [label !== "" && html`<p class="code-name">${label}</p>`, Code.block(token.content, Languages.named(name))]
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

/** Not recursive over blocks, because their nesting is as deep as an agent likes. */
const shown = function*(tokens: ReadonlyArray<Token>): Steps<ReadonlyArray<Part>> {
  const top: Array<Part> = []
  const within: Array<{ readonly open: Token; readonly content: Array<Part> }> = []
  for (const token of tokens) {
    yield
    if (token.nesting === 1) {
      within.push({ open: token, content: [] })
      continue
    }
    const closed = token.nesting === -1 ? within.pop() : undefined
    const made = closed !== undefined
      ? around(closed.open, closed.content)
      : token.type === "inline"
      ? yield* shown(childrenOf(token))
      : token.type === "image"
      ? imageOf(token, within.some(({ open }) => open.type === "link_open"))
      : leaf(token)
    if (Array.isArray(made) && made.length === 0) continue
    ;(within.at(-1)?.content ?? top).push(made)
  }
  return top
}

/** The reason to show the text as it was written; `null`: it is read as Markdown. */
const tooMuch = (text: string): string | null =>
  text.length > MAX_LENGTH
    ? `Longer than ${MAX_LENGTH / 1024} kB`
    : text.split("[", MAX_BRACKETS + 2).length > MAX_BRACKETS + 1
    ? "Too many brackets"
    : null

const page = (text: string): Later =>
  new Later(function*() {
    const tokens = (mayHaveTables(text) ? whole : withoutTables).parse(text, {})
    yield
    return html`<div class="markdown">${yield* shown(tokens)}</div>`
  })

/** Characters of the kept texts and their HTML: more than the pages of a few people have. */
const MAX_KEPT = 8 * 2 ** 20

/** A page shows the same texts again and again. */
const kept = new LruCache<string, Html>(MAX_KEPT, (page, text) => text.length + String(page).length)

/** As much of it as the budget allows. `done` gets it, and how many of its characters it shows. */
export const render = (text: string, budget: Budget, done: (shown: Html, length: number) => Part): Later => {
  const why = tooMuch(text)
  const asWritten = beginning(text, budget, (shown, length) =>
    done(
      html`<p class="fine">${why ?? "Too large"}: shown as it was written.</p>
<div class="as-written">${shown}</div>`,
      length
    ))
  if (why !== null) return asWritten
  return fit(
    [text],
    budget,
    () => cached(kept, text, () => page(text)),
    ([whole]) => whole === undefined ? asWritten : done(whole, text.length)
  )
}
