import { assert, it } from "@effect/vitest"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Schema } from "effect"
import { html, type Part } from "../../src/html/Html.ts"

/** Text as parsers can be given it: they know no NUL, and UTF-8 no lone surrogate. */
const legible = (text: string) => text.toWellFormed().replaceAll("\0", "\ufffd")

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: "\"" }

/**
 * A parser's result for one element with one attribute: tokenization as in the HTML standard (13.2.5), as far as such an element can need
 * it. Anything that would be another tag or attribute throws.
 */
const parse = (markup: string) => {
  const text = markup.replaceAll(/\r\n?/gu, "\n")
  let at = 0
  const expect = (wanted: string) => {
    if (!text.startsWith(wanted, at)) throw new Error(`${wanted} expected at ${at} of ${JSON.stringify(text)}`)
    at += wanted.length
  }
  const until = (end: string): string => {
    let value = ""
    while (at < text.length && text[at] !== end) {
      const [reference, number, name] = /^&(?:#(\d+)|([a-zA-Z]+));/u.exec(text.slice(at)) ?? []
      if (reference === undefined) value += text[at++]
      else {
        const char = number === undefined ? NAMED[name ?? ""] : String.fromCodePoint(Number(number))
        if (char === undefined) throw new Error(`unknown reference ${reference}`)
        value += char
        at += reference.length
      }
    }
    return value
  }
  expect("<p lang=\"")
  const title = until("\"")
  expect("\">")
  const content = until("<")
  expect("</p>")
  if (at !== text.length) throw new Error("something follows")
  return { title, content }
}

const Text = Schema.Union([
  Schema.String,
  Schema.Array(
    Schema.Literals(["<", ">", "&", "\"", "'", "\r", "\n", "\0", "\ud800", "&amp;", "&#13;", "<script>", "-->", "é", "😀", "${", "`", "=",
      " "])
  )
])

it.prop("whatever text is put into a quoted attribute comes out as that text, and in an element with what is hidden by its name", [Text,
  Text], ([one, other]) => {
  const [title, content] = [one, other].map((text) => typeof text === "string" ? text : text.join(""))
  assert(title !== undefined && content !== undefined)
  assert.deepStrictEqual(parse(html`<p lang="${title}">${content}</p>`.toString()), {
    title: legible(title),
    content: visible(content.toWellFormed())
  })
}, { arbitrary: { runs: 2000 } })

it("shows what is hidden in a text, wherever in the template it stands", () => {
  const text = "a\u202eb\u001b"
  const shown = "a⟨RIGHT-TO-LEFT OVERRIDE⟩b⟨ESC⟩"
  assert.strictEqual(
    html`${text}<p class="${text}" title="A ${text} ${text}" id="${text}">${text}<br>${[text, html`<b>${text}</b>`]}</p>`.toString(),
    `${shown}<p class="${text}" title="A ${shown} ${shown}" id="${text}">${shown}<br>${shown}<b>${shown}</b></p>`
  )
})

it("keeps HTML, joins lists, and leaves out what is not there", () => {
  const items: Part = [html`<b>1</b>`, "<2>", 3, null, false, [html`<i></i>`]]
  assert.strictEqual(html`<p>${items}${null}${false}${0}</p>`.toString(), "<p><b>1</b>&lt;2&gt;3<i></i>0</p>")
})

it("takes nothing for HTML but what a template made", () => {
  const forged = { toString: () => "<script>" }
  // @ts-expect-error An object is no part.
  assert.strictEqual(html`${forged}`.toString(), "&lt;script&gt;")
})
