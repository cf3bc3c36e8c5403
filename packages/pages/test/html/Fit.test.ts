import { assert, describe, it } from "@effect/vitest"
import { LruCache } from "@slipway/domain/store/LruCache"
import { beginning, cached, each, ending, fit, later } from "../../src/html/Fit.ts"
import { html, type Html, type Part } from "../../src/html/Html.ts"

const text = (part: Part) => String(html`${part}`)

describe("a section of a page", () => {
  it("has as many items as fit, and says how many they are", () => {
    const budget = { bytes: 10 }
    const shown = fit(["<", "bb", "ccc", "dd"], budget, (item) => item, (shown, taken) => html`${shown}|${taken.length}`)
    assert.strictEqual(text(shown), "&lt;bbccc|3")
    assert.strictEqual(budget.bytes, 1)
    // The next section gets the bytes that are left.
    assert.strictEqual(text(fit(["e", "f"], budget, (item) => item, (shown) => shown)), "e")
  })

  it("renders no item behind the first that does not fit or is empty", () => {
    const rendered: Array<string> = []
    const render = (item: string) => {
      rendered.push(item)
      return item === "" ? null : later(() => html`<b>${item}</b>`)
    }
    assert.strictEqual(text(fit(["a", "bbbb", "c"], { bytes: 16 }, render, (shown) => shown)), "<b>a</b>")
    assert.strictEqual(text(fit(["d", "", "e"], { bytes: 99 }, render, (shown) => shown)), "<b>d</b>")
    assert.deepStrictEqual(rendered, ["a", "bbbb", "d", ""])
  })

  it("counts bytes, and what its items are made of later", () => {
    assert.strictEqual(text(fit(["é", "é"], { bytes: 3 }, (item) => later(() => item), (shown) => shown)), "é")
    const inner = () => fit(["aaaa"], { bytes: 4 }, (item) => item, (shown) => html`(${shown})`)
    assert.strictEqual(text(fit([1, 2], { bytes: 6 }, inner, (shown) => shown)), "(aaaa)")
  })

  it("has the beginning or the end of a text, and cuts no character in two", () => {
    const long = `${"x".repeat(1023)}\u{1f680}\n${"y".repeat(1023)}\u{1f680}z`
    const part = (bytes: number, of: typeof beginning) => {
      let shown = 0
      const made = text(of(long, { bytes }, (some, length) => {
        shown = length
        return some
      }))
      assert.strictEqual(made.length, shown)
      return made
    }
    assert.strictEqual(part(1_100, beginning), "x".repeat(1023))
    assert.strictEqual(part(10_000, beginning), long)
    assert.strictEqual(part(10, beginning), "")
    assert.strictEqual(part(1_500, ending), `${"y".repeat(1023)}\u{1f680}z`.slice(-part(1_500, ending).length))
    assert.isAtLeast(part(1_500, ending).length, 1_000)
    // From the beginning of a line, if one is among what fits.
    assert.strictEqual(part(2_053, ending), `${"y".repeat(1023)}\u{1f680}z`)
    assert.strictEqual(part(10_000, ending), long)
  })

  it("is escaped wherever a part of it is made", () => {
    assert.strictEqual(text(each(["<", "&"], (item) => later(() => [item, html`<i></i>`]))), "&lt;<i></i>&amp;<i></i>")
  })

  it("is made once for each key while the cache has it", () => {
    const cache = new LruCache<string, Html>(1)
    let count = 0
    const make = () => html`${later(() => ++count)}`
    assert.strictEqual(text(["a", "a", "b", "a"].map((key) => cached(cache, key, make))), "1123")
  })
})
