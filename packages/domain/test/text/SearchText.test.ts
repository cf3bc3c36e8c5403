import { assert, describe, it } from "@effect/vitest"
import { excerptOf, hasWords, SEARCHED_CHARACTERS } from "../../src/text/SearchText.ts"

describe("the words of a text", () => {
  it("are found by their beginnings, in any case and order, all of them", () => {
    const text = "Mend checkout_total in src/cart/Total.ts, ÜBERALL: it's 3.14"
    for (const search of ["mend", "TOTAL check", "cart/total.ts", "überall", "its ".slice(0, 2), "3.1"]) {
      assert.isTrue(hasWords(text, search), search)
    }
    for (const search of ["end", "mend absent", "", "...", "\u202e"]) assert.isFalse(hasWords(text, search), search)
  })

  it("show a hit in one line, cut between words", () => {
    assert.strictEqual(excerptOf("The  total\nis wrong", "wrong"), "The total is wrong")
    const text = `${"before ".repeat(20)}the hit ${"after ".repeat(60)}`
    const excerpt = excerptOf(text, "HIT")
    assert.match(excerpt, /^…before [^…]*the hit after [^…]*…$/u)
    assert.isAtMost(Array.from(excerpt).length, 162)
    // Without a word of the search, the beginning.
    assert.strictEqual(excerptOf("Something else", "absent"), "Something else")
    for (const hostile of ["", "\u{1F680}".repeat(SEARCHED_CHARACTERS), "x".repeat(50_000), `${"y".repeat(500)} hit`]) {
      const shown = excerptOf(hostile, "hit")
      assert.isAtMost(Array.from(shown).length, 162)
      assert.isTrue(shown.isWellFormed())
    }
    assert.include(excerptOf(`${"y".repeat(500)} hit`, "hit"), "hit")
  })
})
