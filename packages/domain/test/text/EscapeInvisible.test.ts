import { assert, describe, it } from "@effect/vitest"
import { HIDDEN, visible } from "@slipway/domain/text/EscapeInvisible"
import * as Schema from "effect/Schema"

describe("text of others", () => {
  it("shows what turns the reading order round by its name", () => {
    assert.strictEqual(visible("rm \u202egpj.exe"), "rm ⟨RIGHT-TO-LEFT OVERRIDE⟩gpj.exe")
    assert.strictEqual(visible("\u2066a\u2069"), "⟨LEFT-TO-RIGHT ISOLATE⟩a⟨POP DIRECTIONAL ISOLATE⟩")
    for (const code of [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069]) {
      assert.match(visible(String.fromCodePoint(code)), /^⟨[A-Z -]+⟩$/u, code.toString(16))
    }
  })

  it("shows control characters by their names, and keeps tabs and line feeds", () => {
    assert.strictEqual(visible("a\u001b[2Kb\rc\0"), "a⟨ESC⟩[2Kb⟨CR⟩c⟨NUL⟩")
    assert.strictEqual(visible("\u009b1m\u007f"), "⟨CSI⟩1m⟨DEL⟩")
    assert.strictEqual(visible("a\tb\nc"), "a\tb\nc")
  })

  it("shows what takes no room, named or by its number", () => {
    assert.strictEqual(visible("n\u200bpm\ufeff\u3164"), "n⟨ZERO WIDTH SPACE⟩pm⟨ZERO WIDTH NO-BREAK SPACE⟩⟨HANGUL FILLER⟩")
    assert.strictEqual(visible("a\u{e0041}\ufe01b\ud800\u0600"), "a⟨U+E0041⟩⟨U+FE01⟩b⟨U+D800⟩⟨U+0600⟩")
  })

  it.each([
    ["\u00ad", "SOFT HYPHEN"],
    ["\u034f", "COMBINING GRAPHEME JOINER"],
    ["\u061c", "ARABIC LETTER MARK"],
    ["\u115f", "HANGUL CHOSEONG FILLER"],
    ["\u1160", "HANGUL JUNGSEONG FILLER"],
    ["\u180e", "MONGOLIAN VOWEL SEPARATOR"],
    ["\u200c", "ZERO WIDTH NON-JOINER"],
    ["\u2028", "LINE SEPARATOR"],
    ["\u2029", "PARAGRAPH SEPARATOR"],
    ["\u2060", "WORD JOINER"],
    ["\u2800", "BRAILLE PATTERN BLANK"],
    ["\uffa0", "HALFWIDTH HANGUL FILLER"]
  ])("shows %j by its name in Unicode, %s", (char, name) => assert.strictEqual(visible(`a${char}b`), `a⟨${name}⟩b`))

  it("leaves words of any language and emoji as they are", () => {
    for (const text of ["déjà vu", "日本語", "שלום", "مرحبا", "Ω≈ç√", "👩‍💻 👍🏽 ❤️ 🏳️‍🌈 🇩🇪"]) assert.strictEqual(visible(text), text)
    assert.strictEqual(visible("a\u200db\ufe0f"), "a⟨ZERO WIDTH JOINER⟩b⟨U+FE0F⟩")
  })

  it.prop("leaves nothing hidden, and changes nothing the second time", [Schema.String], ([text]) => {
    assert.notMatch(visible(text), new RegExp(HIDDEN, "u"))
    assert.strictEqual(visible(visible(text)), visible(text))
  })
})
