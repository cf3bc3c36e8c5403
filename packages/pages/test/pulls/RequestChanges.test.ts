import { assert, it } from "@effect/vitest"
import { parse } from "../../src/pulls/RequestChanges.ts"

it("comments on lines are taken out of the text, with the lines that they quote", () => {
  const sent = "Please shorten it.\r\n\r\nsrc/a.ts:7\r\n> const a = 1\r\n\r\nRename it.\r\n\r\nReally.\r\n\r\n" +
    "b c.md:2 (removed)\r\n> old\r\n\r\nKeep it."
  assert.deepStrictEqual(parse(sent), {
    text: "Please shorten it.",
    comments: [
      { path: "src/a.ts", line: 7, text: "> const a = 1\n\nRename it.\n\nReally." },
      { path: "b c.md", line: 2, text: "> old\n\nKeep it." }
    ]
  })
})

it("a text that only looks like a place stays a text", () => {
  for (const text of ["See a.ts:7", "a.ts:7\nno quote", "a.ts:0\n> x\n\nno", "just this"]) {
    assert.deepStrictEqual(parse(text), { text, comments: [] })
  }
})

it("takes at most a hundred comments, and loses none of the text", () => {
  const sent = Array.from({ length: 120 }, (_, i) => `a.ts:${i + 1}\n> x\n\nno ${i}`).join("\n\n")
  const { comments, text } = parse(sent)
  assert.strictEqual(comments.length, 100)
  assert.include(text, "no 119")
})
