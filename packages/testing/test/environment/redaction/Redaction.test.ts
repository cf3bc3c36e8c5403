import { assert, describe, it } from "@effect/vitest"
import { Redactor, SHOWN } from "@slipway/domain/environment/redaction/Redaction"
import { shapes } from "@slipway/domain/environment/redaction/Shapes"
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { examples } from "../../../src/redaction/SecretExamples.ts"

const redactorOf = (...secrets: ReadonlyArray<string>) => {
  const redactor = new Redactor()
  for (const secret of secrets) redactor.learn(secret)
  return redactor
}

const unicode = (text: string): string =>
  Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")

/** Every form a secret travels in, beside the text it stands in. */
const encodings: Readonly<Record<string, (text: string) => string>> = {
  plain: (text) => text,
  json: (text) => JSON.stringify({ text }),
  "json in json": (text) => JSON.stringify({ text: JSON.stringify(text).slice(1, -1) }),
  "json with slashes escaped": (text) => JSON.stringify({ text }).replaceAll("/", "\\/"),
  "json in ASCII": (text) => JSON.stringify({ text }).replaceAll(/\P{ASCII}/gu, unicode),
  "json escaped throughout": (text) => unicode(text),
  base64: (text) => Buffer.from(text).toString("base64"),
  base64url: (text) => Buffer.from(text).toString("base64url"),
  hex: (text) => Buffer.from(text).toString("hex"),
  percent: (text) => encodeURIComponent(text),
  "lower percent": (text) => encodeURIComponent(text).replaceAll(/%../gu, (escape) => escape.toLowerCase()),
  form: (text) => new URLSearchParams({ text }).toString(),
  "all percent": (text) => Buffer.from(text).toString("hex").replaceAll(/../gu, "%$&")
}

/** The forms a reader would look for: what base64 is of a secret depends on where it begins. */
const shownIn = (text: string, secret: string): boolean =>
  Object.entries(encodings).some(([name, encode]) => {
    if (!name.startsWith("base64")) return text.includes(encode(secret).replace(/^text=|^\{"text":"|"\}$/gu, ""))
    return [0, 1, 2].some((before) => {
      const encoded = encode("~".repeat(before) + secret).replaceAll("=", "")
      return text.includes(encoded.slice(before === 0 ? 0 : before + 1, (before + Buffer.byteLength(secret)) % 3 === 0 ? undefined : -1))
    })
  })

const Text = Schema.String
const Secret = Schema.String.check(Schema.isBetweenLength(8, 80))

describe("values", () => {
  it.prop("a secret in any text, in any form, is not in what is left", [Text, Secret, Text], ([before, drawn, after]) => {
    // A one-line UTF-8 text that differs from the mark.
    const secret = `${drawn.toWellFormed().replaceAll(/[\r\n]|\\n|-----|:\/\//gu, "_").trim()}~Z9#x%/+`
    const redactor = redactorOf(secret)
    for (const [name, encode] of Object.entries(encodings)) {
      const text = encode(`${before.toWellFormed()}${secret}${after.toWellFormed()}`)
      assert.isTrue(shownIn(text, secret), `the test finds nothing in ${name}`)
      const left = redactor.redact(text)
      assert.isFalse(shownIn(left, secret), `${name}: ${left}`)
    }
  }, { arbitrary: { runs: 300 } })

  it("a secret that begins another hides both, and two that overlap are not shown whole", () => {
    const redactor = redactorOf("correct horse", "correct horse battery", "battery staple")
    assert.strictEqual(redactor.redact("a correct horse battery staple b"), `a ${SHOWN} staple b`)
    assert.strictEqual(redactor.redact("a correct horse b"), `a ${SHOWN} b`)
  })

  it("of an address its password is hidden, as it is written and as it is meant", () => {
    const redactor = redactorOf("postgres://slipway:p%40ss%2Fw0rd!@db.internal:5432/slipway?sslmode=require")
    assert.strictEqual(redactor.redact("for p@ss/w0rd! at db.internal"), `for ${SHOWN} at db.internal`)
    assert.strictEqual(redactor.redact("for p%40ss%2fw0rd! at db.internal"), `for ${SHOWN} at db.internal`)
    const parts = ["postgres://slipway:over-a-socket@/slipway?host=/run", "postgres://h/db?password=in-a-parameter&sslpassword=of-the-key"]
    assert.strictEqual(
      redactorOf(...parts).redact("over-a-socket, in-a-parameter, of-the-key, /run"),
      `${SHOWN}, ${SHOWN}, ${SHOWN}, /run`
    )
  })

  it("of a private key each line is hidden, however its lines end", () => {
    const lines = [randomBytes(48).toString("base64"), randomBytes(48).toString("base64"), "Zm9vYmFyYmF6"]
    for (const end of ["\n", "\r\n", "\\n"]) {
      const redactor = redactorOf(["-----BEGIN RSA PRIVATE KEY-----", ...lines, "-----END RSA PRIVATE KEY-----", ""].join(end))
      for (const line of lines) assert.strictEqual(redactor.redact(`at ${line}`), `at ${SHOWN}`)
    }
  })

  it("what is shorter than eight characters is not looked for", () => {
    assert.strictEqual(redactorOf("", "word", "seven77", "eight888").redact("a word of seven77, eight888"), `a word of seven77, ${SHOWN}`)
  })

  it("what is in the mark itself is not looked for", () => {
    assert.strictEqual(redactorOf("redacted", "eight888").redact("[redacted] eight888"), "[redacted] [redacted]")
  })
})

const TOKEN = "0aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO8mN7nM6"

describe("shapes", () => {
  const jwt = `eyJhbGciOiJSUzI1NiJ9.${Buffer.from("{\"iss\":1}").toString("base64url")}.${"sig_-".repeat(20)}`
  const cases: ReadonlyArray<readonly [text: string, left: string]> = [
    [`the key sbx_live_${TOKEN} is unknown`, `the key ${SHOWN} is unknown`],
    ["xsbx_test_short, and", `x${SHOWN}, and`],
    ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw!", `${SHOWN}!`],
    ["secret?of=whsec_MfKQ%2Fr8GKYqr%2BwjUPD8I%3D&n=1", `secret?of=${SHOWN}&n=1`],
    ["GET /sign-in/github/callback?code=0123456789abcdef0123&state=ab_-cd", `GET /sign-in/github/callback?code=${SHOWN}&state=${SHOWN}`],
    ["code_verifier=ab_-cd, csrf=abc", `code_verifier=${SHOWN}, csrf=${SHOWN}`],
    ["a=b; __Host-slipway_oauth=ab_-x%20cd_-y%20%2Fsandboxes; c=d", `a=b; __Host-slipway_oauth=${SHOWN}; c=d`],
    [`with ghs_${"a1".repeat(18)} and github_pat_11ABC_defghi.`, `with ${SHOWN} and ${SHOWN}.`],
    [`sk-ant-api03-${"k".repeat(30)} is revoked`, `${SHOWN} is revoked`],
    ["Authorization: Bearer abc.def+/=", `Authorization: Bearer ${SHOWN}`],
    ["said bearer  xyz, and", `said bearer  ${SHOWN}, and`],
    ["authorization: Basic dXNlcjpwYXNz", `authorization: Basic ${SHOWN}`],
    [`a JWT ${jwt} here`, `a JWT ${SHOWN} here`],
    [`cookie: '__Host-slipway_session=${TOKEN}; theme=dark'`, `cookie: '${SHOWN}; theme=dark'`],
    ["GET /x?token=abc123&page=2", `GET /x?token=${SHOWN}&page=2`],
    ["{\"password\": \"hunter2\", \"n\": 1}", `{"password": "${SHOWN}", "n": 1}`],
    ["to https://hooks.slack.com/services/T0/B1/c2", `to https://hooks.slack.com/services/${SHOWN}`],
    ["postgres://slipway:p@ss@db/slipway", `postgres://${SHOWN}@db/slipway`],
    ["see //user@host/a@b", `see //${SHOWN}@host/a@b`],
    [`${TOKEN} signs in`, `${SHOWN} signs in`],
    [`a%3D${TOKEN}`, `a%${SHOWN}`],
    ["x -----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY----- y", `x ${SHOWN} y`],
    ["x -----BEGIN PRIVATE KEY-----\nMHcCAQEE and no end", `x ${SHOWN}`]
  ]
  for (const [text, left] of cases) {
    it(`hides the secret of: ${text.slice(0, 40).replaceAll("\n", " ")}`, () => assert.strictEqual(new Redactor().redact(text), left))
  }

  it("leaves what people look for in logs", () => {
    for (
      const text of [
        `commit ${"0a1b2c3d4e".repeat(4)} of https://github.com/acme/shop.git at refs/heads/main`,
        `container ${"deadbeef".repeat(8)}`,
        "trace 0af7acca16cd43dd8448eb211c80319c",
        "req_01ARZ3NDEKTSV4RRFFQ69G5FAV of user_01ARZ3NDEKTSV4RRFFQ69G5FAV, sandbox 0197f1a0-0000-7000-8000-0000000000a1",
        "the database failed with code: '23505', state=running, status code=7",
        "the token was refused: its session ended, see ada@example.com",
        "at file:///srv/slipway/packages/http/src/middleware/Edge.ts:161:11"
      ]
    ) assert.strictEqual(new Redactor().redact(text), text)
  })

  it("each has an example", () => {
    assert.deepStrictEqual(Object.keys(examples).toSorted(), Object.keys(shapes).toSorted())
  })

  for (const [name, list] of Object.entries(examples)) {
    it(`hides ${name} in lines, JSON, addresses, headers and variables`, () => {
      for (const { secret, text } of list) {
        for (
          const planted of [
            text,
            `12:00:01 error: could not log in with ${text}, giving up`,
            JSON.stringify({ level: "error", message: `failed: ${text}` }),
            JSON.stringify({ body: JSON.stringify({ value: text }) }),
            `GET https://example.com/a?b=${text}&c=1`,
            `GET https://example.com/a?b=${encodeURIComponent(text)}&c=1`,
            `> X-Custom: ${text}\r\n> Accept: */*`,
            `export VALUE='${text}'`
          ]
        ) {
          const left = new Redactor().redact(planted)
          for (const form of [secret, encodeURIComponent(secret)]) assert.notInclude(left, form, planted)
          assert.include(left, SHOWN)
        }
      }
    })
  }

  it("leaves what only resembles a secret", () => {
    for (
      const text of [
        "session: started, token: refused after 3 tries, cookie: none",
        "global-configuration-settings-of-the-service",
        "npm_config_registry is set",
        "the asian-pacific region",
        "xoxo, and hf_ alone",
        "risk_lively",
        "git push origin main: password required"
      ]
    ) assert.strictEqual(new Redactor().redact(text), text)
  })

  it("takes time in proportion to the text, whatever it repeats", () => {
    const redactor = redactorOf("%25%2525%25", "aaaaaaaaaaaaaaaaaaaaaaab")
    const steps = ["//", "//a", "eyJ", "eyJ-", "eyJaaaaa.", "a", "A0", "-----BEGIN PRIVATE KEY-----", "bearer ", "authorization: ",
      "token = ", "%25", "\\\"", "sk-", "password: ", "x-api-key: ", "token: a", "glpat-", "AKIA", "akiaAKIA0", "xoxb-", "SG.", "SG.a",
      "SG.aaaaaaaaaaaaaaaaaaaaaaaaaa.", "hooks.slack.com/services/"]
    // Quadratic time would take minutes: the test's own limit is the bound.
    for (const step of steps) redactor.redact(step.repeat(100_000))
  })
})
