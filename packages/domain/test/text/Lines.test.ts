import { assert, describe, it } from "@effect/vitest"
import { inOneLine, linesOf } from "../../src/text/Lines.ts"

describe("lines", () => {
  for (
    const [text, lines] of [["", []], ["a", ["a"]], ["a\n", ["a\n"]], ["\n\na", ["\n", "\n", "a"]], ["a\r\nb", ["a\r\n", "b"]]] as const
  ) {
    it(`keep their line feeds: ${JSON.stringify(text)}`, () => {
      assert.deepStrictEqual(linesOf(text), [...lines])
      assert.strictEqual(linesOf(text).join(""), text)
    })
  }

  it("become one, with a mark where a line ended", () => {
    assert.strictEqual(inOneLine(" a  b \n\n\t c\n"), "a  b ⏎ c")
    assert.strictEqual(inOneLine("a\u00a0b\tc"), "a\u00a0b\tc")
  })
})
