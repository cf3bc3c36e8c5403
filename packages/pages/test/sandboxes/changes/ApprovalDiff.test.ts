import { assert, describe, it } from "@effect/vitest"
import { unifiedDiff } from "@slipway/domain/sandbox/rules/ToolCall"
import { html } from "../../../src/html/Html.ts"
import * as ApprovalDiff from "../../../src/sandboxes/changes/ApprovalDiff.ts"

const shown = (diff: string, bytes = 100_000) => String(html`${ApprovalDiff.render(diff, { bytes })}`)
const change = unifiedDiff("src/a.ts", "const a = 1\nconst b = 2\n", "const a = 1\nconst b = 3\n")
/** All of it, as it came. */
const plain = (diff: string) => assert.include(shown(diff), "<pre data-field=\"diff\">")

describe("the change that an approval is about", () => {
  it("is a table of its lines, with marks on the words that changed", () => {
    const text = shown(change)
    assert.include(text, "<code>src/a.ts</code>")
    assert.match(text, /<tr class="removed">.*<del>.*2.*<\/del>/u)
    assert.match(text, /<tr class="added">.*<ins>.*3.*<\/ins>/u)
    assert.notInclude(text, "<pre")
  })

  it("says of a file that it is new, goes away or gets another name", () => {
    assert.include(shown(unifiedDiff("a.txt", null, "one\n")), "New file a.txt")
    assert.include(shown(unifiedDiff("a.txt", "one\n", null)), "Deletes a.txt")
    assert.include(shown("--- a.txt\n+++ b.txt\n@@ -1 +1 @@\n-one\n+two\n"), "a.txt → b.txt")
  })

  it("has every file of it, and lines that look like the beginning of another", () => {
    const text = shown(`${change}${unifiedDiff("b.txt", "-- old\n", "++ new\n")}`)
    assert.include(text, "<code>src/a.ts</code>")
    assert.include(text, "<code>b.txt</code>")
    assert.notInclude(text, "<pre")
  })

  it("is shown as it came where a table would leave out anything that is said", () => {
    plain(`${change}\u2026 the rest of the changes is not shown: there are too many of them\n`)
    plain(`what comes first\n${change}`)
    plain(`${change}+beyond its counts\n`)
    plain(change.replace("@@ -1,2", "@@ -1,9"))
    plain("--- a\n+++ a\n@@ -1,1 +1,2 @@\n one\n two\n")
    plain(change.replace("+1,2 @@", "+1,2 @@ rm -rf ."))
    plain("--- a\n+++ a\n")
    plain("")
    plain(unifiedDiff("a.txt", null, `${"x".repeat(401)}\n`))
  })

  it("is shown as it came where there is no room for all of the table", () => {
    const lines = (count: number) => unifiedDiff("a.txt", null, "line\n".repeat(count))
    assert.notInclude(shown(lines(500), 1_000_000), "<pre")
    assert.include(shown(lines(501), 1_000_000), "<pre")
    assert.include(shown(change, 300), "<pre")
    const two = `${unifiedDiff("a.txt", null, "one\n")}${lines(500)}`
    assert.include(shown(two, 1_000_000), "<pre")
  })

  it("is harmless whatever an agent writes", () => {
    const hostile = "<script>alert(1)</script>"
    const text = shown(unifiedDiff(hostile, `${hostile}\n`, `${hostile}!\n`))
    assert.notInclude(text, "<script>")
    assert.notInclude(shown(`${hostile}\n`), "<script>")
  })
})
