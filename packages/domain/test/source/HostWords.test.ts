import { assert, describe, it } from "@effect/vitest"
import { hostWords } from "../../src/source/rules/HostWords.ts"

describe("words of a source host", () => {
  it.each([
    ["", ""],
    [" two\r\n lines\t here ", "two lines here"],
    ["\u001b[31mred\u202e", "⟨ESC⟩[31mred⟨RIGHT-TO-LEFT OVERRIDE⟩"],
    ["x".repeat(200), "x".repeat(200)],
    ["🦜".repeat(201), `${"🦜".repeat(199)}…`],
    ["y".repeat(1_000_000), `${"y".repeat(199)}…`],
    ["\ud800!", "\ufffd!"],
    // 4,000 characters are read.
    [`${" ".repeat(3_999)}ab`, "a"]
  ])("%j are shown as %j", (said, shown) => {
    assert.strictEqual(hostWords(said), shown)
  })
})
