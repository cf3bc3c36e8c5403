import { assert, describe, it } from "@effect/vitest"
import { saturatingAdd } from "@slipway/domain/text/Counters"
import { characters, Counter, StorableText, text } from "@slipway/domain/text/Text"
import { cut, endOf, utf8Length } from "@slipway/domain/text/Utf8"
import * as Schema from "effect/Schema"

const rocket = "\u{1F680}"
const family = "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}"

describe("a text", () => {
  it.each(
    [
      ["", 0, 0, true],
      ["", 1, 2, false],
      ["a", 1, 1, true],
      ["ab", 1, 1, false],
      [rocket, 1, 1, true],
      [rocket, 2, 2, false],
      [rocket + rocket, 2, 2, true],
      [rocket + "a", 2, 2, true],
      [`${rocket}ab`, 2, 2, false],
      [family, 5, 5, true],
      [family, 1, 4, false],
      ["e\u0301", 2, 2, true],
      ["e\u0301", 1, 1, false]
    ] as const
  )("%j of %i to %i characters: %s", (value, minimum, maximum, accepted) => {
    assert.strictEqual(Schema.is(text(minimum, maximum))(value), accepted)
  })

  it.prop(
    "counts code points, as JSON Schema does",
    [Schema.String, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8 })),
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8 }))],
    ([given, minimum, more]) => {
      const value = given.replaceAll("\0", "").toWellFormed()
      const count = Array.from(value).length
      assert.strictEqual(Schema.is(text(minimum, minimum + more))(value), count >= minimum && count <= minimum + more)
    },
    { arbitrary: { runs: 500 } }
  )

  it("that is only looked up may have any characters, and the same lengths", () => {
    const accepts = Schema.is(characters(1, 2))
    assert.deepStrictEqual(["", "a", "\0\ud83d", "abc"].map((value) => accepts(value)), [false, true, true, false])
  })

  it("can be stored in Postgres", () => {
    const accepts = Schema.is(StorableText)
    for (const value of ["", "a", rocket, "\ud83d\ude80", "\u0001\uffff"]) assert.isTrue(accepts(value), JSON.stringify(value))
    for (const value of ["\0", "a\0", "\ud83d", "\ude80", "\ude80\ud83d"]) assert.isFalse(accepts(value), JSON.stringify(value))
  })
})

describe("a counter", () => {
  it("is a whole number from 0 to 2^53−1", () => {
    const accepts = Schema.is(Counter)
    assert.deepStrictEqual([0, 1, Number.MAX_SAFE_INTEGER].map((n) => accepts(n)), [true, true, true])
    assert.deepStrictEqual([-1, 0.5, Number.MAX_SAFE_INTEGER + 1, Infinity, NaN].map((n) => accepts(n)), [false, false, false, false,
      false])
  })

  it("never leaves its range when it is added to", () => {
    assert.strictEqual(saturatingAdd(2, 3), 5)
    assert.strictEqual(saturatingAdd(Number.MAX_SAFE_INTEGER - 1, 1), Number.MAX_SAFE_INTEGER)
    assert.strictEqual(saturatingAdd(Number.MAX_SAFE_INTEGER, 7), Number.MAX_SAFE_INTEGER)
  })
})

describe("texts as bytes", () => {
  const utf8 = new TextEncoder()
  it.each(["\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "\u{10ffff}", "\ud800", "\ud800a", "\udbff",
    "\udc00", "\udfff", "\ud800\ud800", "\udbff\udfff", "\udbff\ue000", "\ud800\udbff", "\udc00\ud800", "\udc00\udc00", "\ue000\udc00",
    "\u0800\udc00", "\ud7ff\udc00"])(
      "are counted as they are encoded: %j",
      (value) => assert.strictEqual(utf8Length(value), utf8.encode(value).length)
    )

  it("are cut where few characters take many bytes", () => {
    assert.strictEqual(cut("€€€", 9, "…"), "€€€")
    assert.strictEqual(cut("€€€", 8, "…"), "€…")
    assert.strictEqual(cut("€€€", 6, "…"), "€…")
  })

  it.prop("are counted as they are encoded", [Schema.String], ([value]) => {
    assert.strictEqual(utf8Length(value), utf8.encode(value).length)
  })

  it.prop(
    "are cut to so many bytes, mark included, and left alone when they fit",
    [Schema.String, Schema.Literals([3, 5, 8, 13])],
    ([value, maximum]) => {
      const shown = cut(value, maximum, "…")
      assert.isTrue(utf8Length(shown) <= maximum)
      if (utf8Length(value) <= maximum) assert.strictEqual(shown, value)
      else assert.isTrue(shown.endsWith("…") && value.startsWith(shown.slice(0, -1)))
    }
  )

  it.each([["ab", 3, "ab"], ["ab", 2, "ab"], ["ab", 1, "b"], ["a€", 3, "€"], ["a€", 2, ""], ["é🦜é", 5, "é"], ["\ufeffa", 4, "\ufeffa"], [
    "",
    0,
    ""
  ]])(
    "are read from their end, without a part of a character: %j by %s bytes is %j",
    (value, maximum, end) => assert.strictEqual(endOf(value, maximum), end)
  )
})
