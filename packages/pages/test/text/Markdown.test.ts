import { assert, describe, it } from "@effect/vitest"
import { html, written } from "../../src/html/Html.ts"
import * as Markdown from "../../src/text/Markdown.ts"

const made = (text: string) => Markdown.render(text, { bytes: Infinity }, (shown) => shown)
const render = (text: string) => String(html`${made(text)}`)

/** The elements of a page, by name, and what is text once they are gone. */
const elements = (page: string) => [...page.matchAll(/<([a-z0-9]+)/gu)].map(([, name]) => name)
const textOf = (page: string) => page.replaceAll(/<[^>]*>/gu, "")

const LINK = "rel=\"noreferrer noopener nofollow\""

describe("Markdown of an agent", () => {
  it("is shown as its writer means it", () => {
    const page = render(
      "# Plan\n\nIt is **bold**, *soft*, ~~gone~~ and `code`.\nNext line\n\n1. one\n2. two\n\n> said\n\n---\n\n- a\n  - b"
    )
    for (
      const part of [
        `<p class="heading h1">Plan</p>`,
        "It is <strong>bold</strong>, <em>soft</em>, <s>gone</s> and <code>code</code>.<br>\nNext line",
        "<ol><li>one\n</li>\n<li>two\n</li>\n</ol>",
        "<blockquote><p>said</p>\n</blockquote>",
        "<hr>",
        "<ul><li>a\n<ul><li>b\n</li>\n</ul></li>\n</ul>"
      ]
    ) {
      assert.include(page, part)
    }
    assert.include(render("7. a\n8. b"), `<ol start="7">`)
    assert.include(render("    four spaces"), `<pre class="code"><code>four spaces`)
  })

  it("has tables that can be reached by keyboard, without heads that say nothing", () => {
    assert.include(
      render("| a | |\n|--|-:|\n| 1 | 2 |"),
      `<table><thead><tr><th scope="col">a</th><td class="right"></td></tr>\n</thead><tbody><tr><td>1</td><td class="right">2</td></tr>`
    )
    assert.include(render("|a|\n|-|"), `<div class="table-box" tabindex="0" role="group" aria-label="Table">`)
  })

  it("has code in the colours of its language, and without them for an unknown language", () => {
    assert.include(
      render("```ts\nconst a = '<b>' // why\n```"),
      `<p class="code-name">ts</p><pre class="code"><code><span class="keyword">const</span> a = ` +
        `<span class="string">&#39;&lt;b&gt;&#39;</span> <span class="comment">// why</span>\n</code></pre>`
    )
    assert.include(render("```brainstorm\nconst a\n```"), "<code>const a\n</code>")
    assert.include(render("```constructor\nconst a\n```"), "<code>const a\n</code>")
  })

  it("leads to the web alone, and tells no other site of the reader", () => {
    assert.include(render("[a](https://example.org/x?y=1&z)"), `<a href="https://example.org/x?y=1&amp;z" ${LINK}>a</a>`)
    assert.include(render("see https://example.org/a_b."), `<a href="https://example.org/a_b" ${LINK}>https://example.org/a_b</a>.`)
    for (
      const url of [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#115;cript:alert(1)",
        "&#x01;javascript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>alert(1)</script>",
        "data:image/png;base64,AAAA",
        "file:///etc/passwd",
        "//evil.example",
        "/sandboxes",
        "https:evil.example",
        "https:///evil.example",
        "ftp://evil.example",
        "mailto:a@b.example",
        "#top"
      ]
    ) {
      for (const text of [`[press](${url})`, `![press](${url})`, `<${url}>`, `[press]\n\n[press]: ${url}`, url]) {
        assert.notInclude(render(text), "<a ", text)
        // It is there to be read.
        assert.include(textOf(render(text)), text.includes("press") ? "press" : url.slice(-4).replaceAll(">", "&gt;"), text)
      }
    }
    assert.include(textOf(render("[press](javascript:alert(1))")), "[press](javascript:alert(1))")
  })

  it("shows no image of another server: a link leads to it", () => {
    const page = render("![A cat](https://example.org/cat.png) ![](http://example.org/dog.png)")
    assert.notInclude(page, "<img")
    assert.include(page, `<a href="https://example.org/cat.png" ${LINK}>A cat</a>`)
    assert.include(page, `<a href="http://example.org/dog.png" ${LINK}>Image</a>`)
    // No link stands within a link.
    assert.include(
      render("[![passing](https://example.org/badge.svg)](https://example.org/ci)"),
      `<a href="https://example.org/ci" ${LINK}>passing</a>`
    )
  })

  it("has no markup but ours, whatever stands in it", () => {
    const allowed = new Set("a blockquote br code div em hr li ol p pre s span strong table tbody td th thead tr ul".split(" "))
    const evil = `<script>alert(1)</script><img src=x onerror=alert(1)>"'><style>*{}</style><!-- x --><svg onload=alert(1)>`
    for (
      const text of [
        evil,
        `\n\n${evil}\n\n`,
        `# ${evil}`,
        `- ${evil}`,
        `> ${evil}`,
        `|${evil}|b|\n|-|-|\n|${evil}|b|`,
        `\`${evil}\``,
        `\`\`\`${evil.replaceAll(" ", "")}\n${evil}\n\`\`\``,
        `\`\`\`html\n${evil}\n\`\`\``,
        `[${evil}](https://example.org "${evil.replaceAll("\"", "'")}")`,
        `[x](<https://example.org/${evil}>)`,
        `![${evil}](https://example.org)`,
        `&lt;script&gt;alert(1)&lt;/script&gt;`,
        `<https://example.org/"onmouseover="alert(1)>`
      ]
    ) {
      const page = render(text)
      for (const name of elements(page)) assert.isTrue(allowed.has(name ?? ""), `${text}\n${page}`)
      // Attributes are ours, and quoted.
      const attributes = page.replaceAll(/="[^"]*"/gu, "=")
      assert.notMatch(attributes, /<[^>]*\s(?!href=|rel=|title=|class=|start=|scope=|tabindex=|role=|aria-label=)[^>\s]+=/u, text)
    }
    assert.include(textOf(render(evil)), "&lt;script&gt;alert(1)&lt;/script&gt;")
  })

  it("shows what is hidden in it, also in what is written as a reference, a title or an entity", () => {
    for (
      const text of ["a \u202e b", "`\u202e`", "```\n\u202e\n```", "&#8238;", "[\u202e](https://example.org)",
        "![\u202e](https://example.org)", "```\u202e\nx\n```", "|\u202e|\n|-|", "[a](https://example.org \"\u202e\")"]
    ) {
      assert.include(render(text), "⟨RIGHT-TO-LEFT OVERRIDE⟩", text)
      assert.notInclude(render(text), "\u202e", text)
    }
    assert.include(render("\u001b[31mred\u001b[0m"), "⟨ESC⟩[31mred⟨ESC⟩[0m")
    // Nothing is taken out of the text.
    assert.include(textOf(render("[note]: https://example.org (You were told to do it.)")), "(You were told to do it.)")
    assert.include(textOf(render("<!-- hidden -->")), "hidden")
  })

  it("is as it was written where reading it would take too long", () => {
    const line = "**a** ".repeat(200_000)
    const page = render(line)
    assert.include(page, `<p class="fine">Longer than 16 kB: shown as it was written.</p>\n<div class="as-written">**a** **a**`)
    assert.include(page, line)
    assert.include(render("[".repeat(5_000)), "Too many brackets: shown as it was written.")
    assert.notInclude(render(`a|b\n-|-\n${"|\n".repeat(5_000)}`), "<table")
  })

  it("bears what is nested ten thousand deep", () => {
    for (const mark of ["> ", ">", "- ", "* ", "**", "_", "[", "![", "`", "~~", "1. "]) {
      const page = render(mark.repeat(10_000) + "deep")
      assert.isBelow(elements(page).length, 20_000)
    }
    assert.include(textOf(render("> ".repeat(90) + "deep")), "deep")
  })

  it("is read once, and then is there", () => {
    const steps = () => [...written(made("text **3**"))].length
    assert.isAbove(steps(), steps())
  })
})
