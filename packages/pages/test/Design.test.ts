/** The colours of `docs/design.md` are those of the style, and contrast as it says. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"

const fileAt = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")

const [light = "", dark = ""] = Array.from(
  fileAt("packages/pages/assets/style.css").matchAll(/:root \{(.*?)\}/gsu),
  ([, block]) => block ?? ""
)
const tokensOf = (block: string) =>
  new Map(Array.from(block.matchAll(/(--[\w-]+):\s*(#[\da-f]{6})/gu), ([, name = "", value = ""]) => [name, value]))
const schemes = [tokensOf(light), tokensOf(dark)]

/** Relative luminance (WCAG 2.2). */
const luminance = (colour: string) => {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((i) => {
    const part = Number.parseInt(colour.slice(i, i + 2), 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
const contrast = (one: string, other: string) => {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

const rows = Array.from(
  fileAt("docs/design.md").matchAll(/^\| `(--[\w-]+)` \| `(#[\da-f]{6})` \| `(#[\da-f]{6})` \| .*? \|(.*)\|$/gmu),
  ([, token = "", light = "", dark = "", said = ""]) => ({ token, values: [light, dark], said })
)

describe("the page of the design", () => {
  it("has every colour of the style, in both schemes, and no other", () => {
    assert.deepStrictEqual(rows.map(({ token }) => token), [...schemes[0]?.keys() ?? []])
    schemes.forEach((tokens, i) => assert.deepStrictEqual(rows.map(({ values }) => values[i]), [...tokens.values()]))
  })

  it("says how much each contrasts with its grounds, which is enough to read", () => {
    const judged = rows.filter(({ said }) => said.trim() !== "")
    assert.lengthOf(judged, 9)
    for (const { said, token, values } of judged) {
      const told = Array.from(said.matchAll(/([\d.]+) : 1/gu), ([, number]) => Number(number))
      const grounds = Array.from(said.matchAll(/`(--[\w-]+)`/gu), ([, ground = ""]) => ground)
      assert.isNotEmpty(grounds)
      schemes.forEach((tokens, i) => {
        const least = Math.min(...grounds.map((ground) => contrast(values[i] ?? "", tokens.get(ground) ?? "")))
        assert.strictEqual(told[i], Math.floor(least * 10) / 10, `${token} ${i}`)
        assert.isAtLeast(least, token === "--field-line" ? 3 : 4.5)
      })
    }
  })

  it("leaves no colour in a rule without a name", () => {
    const rules = fileAt("packages/pages/assets/style.css").replaceAll(/:root \{.*?\}/gsu, "")
    assert.notMatch(rules, /:[^;{}]*(?:#[\da-f]{3,8}\b|\brgba?\(|\bhsla?\()/iu)
  })
})
