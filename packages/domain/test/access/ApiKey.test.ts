import { assert, describe, it } from "@effect/vitest"
import { fromHeader, hint, mint } from "@slipway/domain/access/rules/ApiKey"
import { draw } from "@slipway/domain/access/rules/Secret"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** Checksums by another implementation: `crc32` of zlib. */
const live = `sbx_live_${"0".repeat(43)}2HzBJE`
const test = `sbx_test_${BASE62.slice(0, 43)}3LTP4B`

/** Gives characters one after the other, from wherever it is started. */
const idsFrom = (start: number) => ({
  random: (alphabet: string, length: number) =>
    Effect.succeed(Array.from({ length }, (_, i) => alphabet.charAt((start + 7 * i) % alphabet.length)).join(""))
})
const isKey = (text: string) => fromHeader(`Bearer ${text}`)._tag === "Key"

const minted = Arbitrary.map(
  Arbitrary.all({
    start: Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 61 }))),
    kind: Arbitrary.schema(Schema.Literals(["live", "test"]))
  }),
  ({ kind, start }) => Redacted.value(Effect.runSync(mint(idsFrom(start), kind)))
)

it.effect("a secret has 43 different digits of base62: the fewest with 256 random bits", () =>
  Effect.gen(function*() {
    const secret = yield* draw({ random: (alphabet, length) => Effect.succeed(`${alphabet}:${length}`) })
    assert.strictEqual(secret, `${BASE62}:${Math.ceil(256 / Math.log2(62))}`)
  }))

describe("a key", () => {
  it("is its kind, 43 characters of base62 and 6 of CRC-32", () => {
    assert.isTrue(isKey(live))
    assert.isTrue(isKey(test))
  })

  it.effect("is minted with its checksum", () =>
    Effect.gen(function*() {
      const zeros = { random: (_: string, length: number) => Effect.succeed("0".repeat(length)) }
      assert.strictEqual(Redacted.value(yield* mint(zeros, "live")), live)
      const digits = { random: (alphabet: string, length: number) => Effect.succeed(alphabet.slice(0, length)) }
      assert.strictEqual(Redacted.value(yield* mint(digits, "test")), test)
    }))

  it.prop("that was minted is well formed", [minted], ([key]) => {
    assert.match(key, /^sbx_(?:live|test)_[0-9A-Za-z]{49}$/u)
    assert.isTrue(isKey(key))
  })

  it("with any one character changed is refused", () => {
    for (const key of [live, test]) {
      for (let i = 0; i < key.length; i++) {
        for (const other of `${BASE62}_- .`) {
          if (other === key[i]) continue
          assert.isFalse(isKey(key.slice(0, i) + other + key.slice(i + 1)), `${other} at ${i}`)
        }
      }
    }
  })

  it("with a character added, left out or exchanged with its neighbour is refused", () => {
    for (let i = 0; i < test.length; i++) {
      assert.isFalse(isKey(test.slice(0, i) + test.slice(i + 1)))
      assert.isFalse(isKey(`${test.slice(0, i)}0${test.slice(i)}`))
      const [a, b] = [test[i], test[i + 1]]
      if (b !== undefined && a !== b) assert.isFalse(isKey(test.slice(0, i) + b + a + test.slice(i + 2)))
    }
    assert.isFalse(isKey(`${test}0`))
    assert.isFalse(isKey(`${test}\n`))
  })

  it.each(["0".repeat(42), "0".repeat(44), `sbx_live_${"0".repeat(43)}`, `${"0".repeat(42)}-`])(
    "of another form is refused, checksum or not (%s)",
    (secret) => {
      const key = Redacted.value(Effect.runSync(mint({ random: () => Effect.succeed(secret) }, "live")))
      assert.isFalse(isKey(key))
    }
  )

  it.prop("no other text is one", [Schema.String], ([text]) => assert.isFalse(isKey(text)))

  it("shows its kind and its last four characters, no more", () => {
    assert.deepStrictEqual(hint(Redacted.make(live)), { prefix: "sbx_live_", last4: "zBJE" })
    assert.deepStrictEqual(hint(Redacted.make(test)), { prefix: "sbx_test_", last4: "TP4B" })
  })

  it.effect("does not show itself when it is printed", () =>
    Effect.gen(function*() {
      const key = yield* mint(idsFrom(3), "live")
      const credential = fromHeader(`Bearer ${Redacted.value(key)}`)
      assert.notInclude(`${String(key)} ${JSON.stringify(credential)}`, Redacted.value(key))
    }))
})

describe("the Authorization header", () => {
  const rows: ReadonlyArray<readonly [string, string | undefined, "None" | "Malformed" | "Key"]> = [
    ["is missing", undefined, "None"],
    ["is empty", "", "None"],
    ["has another scheme", `Basic ${live}`, "None"],
    ["has no scheme", live, "None"],
    ["has a scheme that only begins like it", `Bearerx ${live}`, "None"],
    ["has something before the scheme", `x Bearer ${live}`, "None"],
    ["has the scheme glued to the key", `Bearer${live}`, "None"],
    ["is as it should be", `Bearer ${live}`, "Key"],
    ["has a test key", `Bearer ${test}`, "Key"],
    ["has the scheme in lower case", `bearer ${live}`, "Key"],
    ["has the scheme in upper case", `BEARER ${live}`, "Key"],
    ["has a scheme and no key", "Bearer", "Malformed"],
    ["has a scheme and a space", "Bearer ", "Malformed"],
    ["has two spaces", `Bearer  ${live}`, "Malformed"],
    ["has text after the key", `Bearer ${live} x`, "Malformed"],
    ["has a space after the key", `Bearer ${live} `, "Malformed"],
    ["has parameters after the key", `Bearer ${live}, a=b`, "Malformed"],
    ["came twice", `Bearer ${live}, Bearer ${live}`, "Malformed"],
    ["has a key with a wrong checksum", `Bearer ${live.slice(0, -1)}F`, "Malformed"],
    ["has something else for a key", "Bearer secret", "Malformed"]
  ]
  it.each(rows)("that %s", (_, header, tag) => assert.strictEqual(fromHeader(header)._tag, tag))

  it("gives the key as it came", () => {
    const credential = fromHeader(`bEaReR ${live}`)
    assert.strictEqual(credential._tag === "Key" ? Redacted.value(credential.key) : null, live)
  })
})
