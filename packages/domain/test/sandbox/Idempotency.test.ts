import { assert, describe, it } from "@effect/vitest"
import { canonicalJson, fingerprint, IdempotencyConflict, resolve, RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"

const ids = { digest: (text: string) => createHash("sha256").update(text, "utf8").digest("hex") }
const decode = Schema.decodeUnknownSync(CreateSandbox)
const encode = Schema.encodeSync(CreateSandbox)
/** The fingerprint of a received body. */
const of = (body: unknown) => fingerprint(ids, encode(decode(body)))
const body = { repos: [{ fullName: "acme/shop" }, { fullName: "acme/other", ref: "main" }], prompt: "Fix it" }

describe("a key", () => {
  const accepts = Schema.is(IdempotencyKey)
  it.each(["a", " ", "~", "a b", "\"quoted\"", "x".repeat(255)])("takes %j raw", (key) => assert.isTrue(accepts(key)))
  it.each(["", "x".repeat(256), "é", "a\tb", "a\n", "\u007f", "a\0", "\u{1F680}"])("refuses %j", (key) => assert.isFalse(accepts(key)))

  it("answers for 30 days, of which 24 hours are promised", () => assert.strictEqual(RETENTION_DAYS, 30))

  it("that is new runs; with the same request it is replayed; with another it conflicts", () => {
    const request = { key: IdempotencyKey.make("k"), fingerprint: "1:a" }
    assert.deepStrictEqual(resolve("1:a", request), Result.succeed("replay"))
    assert.deepStrictEqual(resolve("1:b", request), Result.fail(new IdempotencyConflict()))
  })

  it("that conflicts says so", () => {
    const error = new IdempotencyConflict()
    assert.strictEqual(error._tag, "IdempotencyConflict")
    assert.match(error.message, /Idempotency-Key.*different request/u)
  })

  it("of an older version of fingerprints conflicts rather than matches by accident", () => {
    assert.isTrue(Result.isFailure(resolve("0:a", { key: IdempotencyKey.make("k"), fingerprint: "1:a" })))
  })
})

describe("the fingerprint", () => {
  it("is version 1 of SHA-256 over canonical JSON with the defaults filled in", () => {
    const repos = `[{"fullName":"acme/shop"},{"fullName":"acme/other","ref":"main"}]`
    const canonical = `{"metadata":{},"prompt":"Fix it","repos":${repos},"toolApprovalMode":"auto"}`
    assert.strictEqual(canonicalJson(encode(decode(body))), canonical)
    assert.strictEqual(of(body), `1:${ids.digest(canonical)}`)
    assert.match(of(body), /^1:[0-9a-f]{64}$/u)
  })

  it("does not depend on the order of keys, at any depth", () => {
    const turned = { prompt: "Fix it", repos: [{ fullName: "acme/shop" }, { ref: "main", fullName: "acme/other" }] }
    assert.strictEqual(of(turned), of(body))
    assert.strictEqual(of({ ...body, metadata: { a: "1", b: "2" } }), of({ ...body, metadata: { b: "2", a: "1" } }))
  })

  it("does not tell a default from the same value written out", () => {
    assert.strictEqual(of({ ...body, toolApprovalMode: "auto" }), of(body))
    assert.strictEqual(of({ ...body, metadata: {} }), of(body))
  })

  it.each<readonly [string, unknown]>([
    ["the order of repositories", { ...body, repos: [...body.repos].reverse() }],
    ["the case of a repository", { ...body, repos: [{ fullName: "acme/Shop" }, { fullName: "acme/other", ref: "main" }] }],
    ["a ref", { ...body, repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/other", ref: "main" }] }],
    ["a space in the prompt", { ...body, prompt: "Fix it " }],
    ["a model, even the default one", { ...body, model: "offline/demo" }],
    ["a title, even if it equals the default title", { ...body, title: "Fix it" }],
    ["an effort", { ...body, reasoningEffort: "none" }],
    ["the approval mode", { ...body, toolApprovalMode: "prompt" }],
    ["metadata", { ...body, metadata: { a: "1" } }]
  ])("tells %s", (_, changed) => assert.notStrictEqual(of(changed), of(body)))

  it("does not normalise Unicode", () => {
    assert.notStrictEqual(of({ ...body, prompt: "\u00e9" }), of({ ...body, prompt: "e\u0301" }))
  })

  it("leaves what was omitted omitted", () => {
    assert.deepStrictEqual(Object.keys(encode(decode(body))).sort(), ["metadata", "prompt", "repos", "toolApprovalMode"])
  })
})

describe("canonical JSON", () => {
  it.each<readonly [Parameters<typeof canonicalJson>[0], string]>([
    [null, "null"],
    [[1, "a", [true, null], {}], `[1,"a",[true,null],{}]`],
    [{ b: 1, a: { d: [], c: -0 } }, `{"a":{"c":0,"d":[]},"b":1}`],
    [{ "10": 1, "9": 2, a: 3, Z: 4 }, `{"10":1,"9":2,"Z":4,"a":3}`],
    [{ "\"": "\u0001", "\u{1F680}": "é" }, `{"\\"":"\\u0001","\u{1F680}":"é"}`]
  ])("of %j is %s", (value, text) => assert.strictEqual(canonicalJson(value), text))

  it.prop("says the same as the value it was made of, and nothing depends on the order of keys", [Schema.Json], ([value]) => {
    assert.deepStrictEqual(JSON.parse(canonicalJson(value)), JSON.parse(JSON.stringify(value)))
    assert.strictEqual(canonicalJson(reversed(value)), canonicalJson(value))
  })
})

/** The same value with the keys of every object the other way round. */
const reversed = (value: Schema.Json): Schema.Json =>
  Array.isArray(value)
    ? value.map(reversed)
    : value === null || typeof value !== "object"
    ? value
    : Object.fromEntries(Object.entries(value).reverse().map(([key, member]) => [key, reversed(member)]))
