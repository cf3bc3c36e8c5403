import { assert, it, onTestFinished, vi } from "@effect/vitest"
import { OutputRedactor } from "@slipway/domain/environment/redaction/OutputRedactor"
import { SHOWN } from "@slipway/domain/environment/redaction/Redaction"
import { Schema } from "effect"
import { randomBytes } from "node:crypto"

const SECRET = "Zq9#x%/+ canary \u{1F680} 7Qm2"

/** The output for input in pieces that end at these bytes. */
const streamed = (redactor: OutputRedactor, text: string, cuts: ReadonlyArray<number>): ReadonlyArray<string> => {
  const bytes = Buffer.from(text)
  const stream = redactor.stream()
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return [...ends.map((end, i) => stream.push(bytes.subarray(i === 0 ? 0 : ends[i - 1], end))), stream.end()]
}

const unicode = (text: string): string =>
  Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")

const encodings: Readonly<Record<string, (text: string) => string>> = {
  plain: (text) => text,
  json: (text) => JSON.stringify(text).slice(1, -1),
  "json in json": (text) => JSON.stringify(JSON.stringify(text).slice(1, -1)).slice(1, -1),
  "json with slashes escaped": (text) => JSON.stringify(text).slice(1, -1).replaceAll("/", "\\/"),
  "json in ASCII": (text) => JSON.stringify(text).slice(1, -1).replaceAll(/\P{ASCII}/gu, unicode),
  "json escaped throughout": (text) => unicode(text),
  base64: (text) => Buffer.from(text).toString("base64"),
  "base64 behind one byte": (text) => Buffer.from(`:${text}`).toString("base64"),
  "base64 behind two bytes": (text) => Buffer.from(`a:${text}`).toString("base64"),
  base64url: (text) => Buffer.from(text).toString("base64url"),
  hex: (text) => Buffer.from(text).toString("hex"),
  "upper hex": (text) => Buffer.from(text).toString("hex").toUpperCase(),
  percent: (text) => encodeURIComponent(text),
  form: (text) => new URLSearchParams({ text }).toString().slice("text=".length)
}

/** Runs of 16 characters of what was encoded: none may be left. */
const leaks = (left: string, encoded: string): ReadonlyArray<string> =>
  Array.from({ length: Math.max(0, encoded.length - 19) }, (_, i) => encoded.slice(i + 2, i + 18)).filter((run) => left.includes(run))

it("a secret in any encoding is hidden wherever the output is cut, even between any two bytes", () => {
  const redactor = new OutputRedactor([SECRET])
  for (const [name, encode] of Object.entries(encodings)) {
    const text = `token=${encode(SECRET)} and more`
    const whole = redactor.redact(text)
    assert.include(whole, SHOWN, name)
    assert.deepStrictEqual(leaks(whole, encode(SECRET)), [], name)
    assert.match(whole, /^token=.*and more$/u)
    for (let cut = 0; cut <= Buffer.byteLength(text); cut++) {
      assert.strictEqual(streamed(redactor, text, [cut]).join(""), whole, `${name} cut at ${cut}`)
    }
    const single = Array.from({ length: Buffer.byteLength(text) }, (_, i) => i)
    assert.strictEqual(streamed(redactor, text, single).join(""), whole, `${name} byte by byte`)
  }
})

const Cuts = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4000 })))
it.prop(
  "whatever the secrets, the text and the cuts: what comes out is what comes out of the whole, and no secret is in it",
  [Schema.Array(Schema.String.check(Schema.isMaxLength(70))), Schema.Array(Schema.String), Cuts],
  ([drawn, texts, cuts]) => {
    const secrets = drawn.map((text, i) => `${text.toWellFormed().replaceAll(/\r|\n|\\n|-----|:\/\//gu, "_").trim()}~Z9#x%/+${i}`)
    const redactor = new OutputRedactor(secrets)
    const text = texts.map((text, i) => text.toWellFormed() + (secrets[i % Math.max(1, secrets.length)] ?? "")).join("")
    const whole = redactor.redact(text)
    for (const secret of secrets) assert.notInclude(whole, secret)
    assert.strictEqual(streamed(redactor, text, cuts).join(""), whole)
  },
  { arbitrary: { runs: 300 } }
)

it("a long secret is hidden whole with one mark, however long, and 32 characters of it too, but not its last 8", () => {
  const long = randomBytes(3006).toString("base64").replaceAll(/[+/=]/gu, "x")
  const redactor = new OutputRedactor([long])
  const text = `a ${long} b`
  assert.strictEqual(redactor.redact(text), `a ${SHOWN} b`)
  assert.strictEqual(streamed(redactor, text, [10, 50, 51, 1000, 2000]).join(""), `a ${SHOWN} b`)
  assert.strictEqual(redactor.redact(long.slice(0, 32)), SHOWN)
  assert.strictEqual(redactor.redact(long.slice(-32)), SHOWN)
  assert.strictEqual(redactor.redact(long.slice(-8)), long.slice(-8))
})

it("each line of a secret of several lines is hidden; of an address the whole and its password", () => {
  const key = "-----BEGIN KEY-----\nc2VjcmV0LWxpbmUtb25l\r\nc2VjcmV0LWxpbmUtdHdv\n-----END KEY-----\n"
  const address = "https://ada:hunter2-correct@registry.example/npm/token-9f2Kq"
  const redactor = new OutputRedactor([key, address])
  assert.strictEqual(
    redactor.redact(`> ${key}`),
    `> -----BEGIN KEY-----\n${SHOWN}\r\n${SHOWN}\n-----END KEY-----\n`
  )
  assert.strictEqual(redactor.redact(`see ${address}!`), `see ${SHOWN}!`)
  assert.strictEqual(redactor.redact("password hunter2-correct"), `password ${SHOWN}`)
})

it("secrets that overlap or touch are hidden with one mark; one of less than 8 characters is shown", () => {
  const redactor = new OutputRedactor(["correct horse", "correct horse battery", "battery staple", "1234567", "87654321"])
  assert.strictEqual(redactor.redact("a correct horse battery staple b"), `a ${SHOWN} b`)
  assert.strictEqual(redactor.redact("CORRECT HORSEcorrect horse"), SHOWN)
  assert.strictEqual(redactor.redact("battery staple, correct horse battery staple"), `${SHOWN}, ${SHOWN}`)
  assert.strictEqual(redactor.redact("pin 1234567 or 31323334353637, and 87654321"), `pin 1234567 or 31323334353637, and ${SHOWN}`)
})

it("a secret of 31 characters hides none behind it, also if one of 32 begins with it and the output stops between", () => {
  const secret = "0123456789abcdefghijklmnopqrstu"
  assert.strictEqual(streamed(new OutputRedactor([secret, `${secret}v`]), `${secret}!`, [31]).join(""), `${SHOWN}!`)
})

it("lines come as they are finished, and of the last one only its end waits; without secrets nothing waits", () => {
  const text = (stream: ReturnType<OutputRedactor["stream"]>, more: string) => stream.push(Buffer.from(more))
  const stream = new OutputRedactor([SECRET]).stream()
  assert.strictEqual(text(stream, "first line\nsecond"), "first line\n")
  assert.strictEqual(text(stream, " line\n"), "second line\n")
  assert.strictEqual(text(stream, "x".repeat(40)), "x".repeat(9))
  assert.strictEqual(stream.end(), "x".repeat(31))
  const none = new OutputRedactor([]).stream()
  assert.strictEqual(text(none, "at once"), "at once")
  // A character that is cut in two is one, and what is no UTF-8 is shown as such.
  assert.strictEqual(none.push(Buffer.from("é").subarray(0, 1)) + none.push(Buffer.from("é").subarray(1)), "é")
  assert.strictEqual(none.push(Buffer.from([0xff])) + none.end(), "\ufffd")
})

it("compares the output with at most 25 pieces at each place, however many secrets begin alike", () => {
  const redactor = new OutputRedactor(Array.from({ length: 200 }, (_, i) => "a".repeat(8 + i) + i))
  const compared = vi.spyOn(Set.prototype, "has")
  onTestFinished(() => compared.mockRestore())
  const shown = redactor.redact("a".repeat(1000))
  const comparisons = compared.mock.calls.length
  assert.strictEqual(shown, SHOWN)
  assert.isAtLeast(comparisons, 1000)
  assert.isAtMost(comparisons, 25 * 1000)
})
