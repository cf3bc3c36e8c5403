import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { KeyGuard, withoutKeys } from "../src/server/KeyGuard.ts"

const KEY = "sk-Canary/7Qm2+x\"y\\z%41"
const hex = (code: number, digits: number) => code.toString(16).padStart(digits, "0")
const unicode = (text: string) => Array.from(text, (one) => `\\u${hex(one.charCodeAt(0), 4)}`).join("")

const spellings: Readonly<Record<string, string>> = {
  "as it is": KEY,
  "in JSON": JSON.stringify(KEY).slice(1, -1),
  "in JSON whose slashes are escaped": JSON.stringify(KEY).slice(1, -1).replaceAll("/", "\\/"),
  "escaped in JSON": unicode(KEY),
  "escaped in JSON with capitals": unicode(KEY).replaceAll(/[0-9a-f]{4}/gu, (digits) => digits.toUpperCase()),
  "partly escaped": `${unicode(KEY.slice(0, 3))}${KEY.slice(3, 10)}${unicode(KEY.slice(10))}`,
  "escaped in JSON of JSON": unicode(KEY).replaceAll("\\", "\\\\"),
  "in an address": encodeURIComponent(KEY),
  "all of it in percent": Array.from(KEY, (one) => `%${hex(one.charCodeAt(0), 2)}`).join(""),
  "in base64": Buffer.from(KEY).toString("base64"),
  "in base64 behind a byte": Buffer.from(`:${KEY}`).toString("base64"),
  "in base64 behind two": Buffer.from(`x:${KEY}`).toString("base64url")
}

const passed = (text: string, cuts: ReadonlyArray<number>) => {
  const guard = new KeyGuard([KEY])
  const bytes = Buffer.from(text)
  const ends = [...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length]
  return Buffer.concat([...ends.map((end, i) => guard.pass(bytes.subarray(i === 0 ? 0 : ends[i - 1], end))), guard.end()]).toString()
}

describe("a provider's key", () => {
  it("is hidden in every spelling, wherever the answer is cut", () => {
    for (const [name, spelled] of Object.entries(spellings)) {
      const text = `data: {"x":"${spelled}"} and more`
      const whole = withoutKeys(text, [KEY])
      assert.match(whole, /^data: \{"x":"(?:[^"]{0,4})\[redacted\][^"]{0,4}"\} and more$/u, name)
      for (let cut = 0; cut <= text.length; cut++) assert.strictEqual(passed(text, [cut]), whole, `${name} cut at ${cut}`)
      assert.strictEqual(passed(text, Array.from(text, (_, i) => i)), whole, `${name} byte by byte`)
    }
  })

  it("is not looked for if it is missing, or would be found everywhere", () => {
    for (const keys of [[], [""], ["short"]]) assert.strictEqual(withoutKeys("a short text", keys), "a short text")
  })

  it("leaves alone what only begins like it", () => {
    for (
      const text of ["sk-", "sk-Canar", "\\u0073\\u006b-Canary", "%73%6b-C", "100%", "\\", "\\u", "\\\\\\\\\\\\u0073", "sk-Canary/7Qm2+x"]
    ) {
      assert.strictEqual(withoutKeys(text, [KEY]), text)
      assert.strictEqual(withoutKeys(`${text} ${text}`, [KEY]), `${text} ${text}`)
    }
  })

  it.prop("comes out the same however the answer is cut, and all else stays", {
    words: Schema.Array(Schema.Literals([...Object.keys(spellings), "sk-", "\\", "\\\\", "%", "%7", "\\u00", "x", " ", "\u00e9"])),
    cuts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2_000 })))
  }, ({ cuts, words }) => {
    const text = words.map((word) => spellings[word] ?? word).join("|")
    const whole = withoutKeys(text, [KEY])
    assert.strictEqual(passed(text, cuts), whole)
    for (const spelled of Object.values(spellings).slice(0, 9)) assert.notInclude(whole, spelled)
    if (words.every((word) => spellings[word] === undefined)) assert.strictEqual(whole, text)
  }, { arbitrary: { runs: 500 } })
})
