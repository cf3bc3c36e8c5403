import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { gzipSync } from "node:zlib"
import { ask, create, creation, json, layer as http, mintKey, postJson, refused, SANDBOXES } from "../testing/Harness.ts"

const nested = (levels: number) => `${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}`

layer(http(), { excludeTestServices: true })("a body", (it) => {
  it.effect("is JSON in UTF-8 and not encoded, or 415", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const body = JSON.stringify(creation)
      const send = (headers: Record<string, string>, bytes: string | Uint8Array = body) => ask(SANDBOXES, { key, body: bytes, headers })
      for (
        const type of ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"",
          "application/json;", "application/json ; charset=utf-8 ;"]
      ) {
        assert.strictEqual((yield* send({ "content-type": type })).status, 201, type)
      }
      assert.strictEqual((yield* send({ "content-encoding": "identity" })).status, 201)
      for (
        const type of [
          "",
          "text/plain",
          "text/json",
          "application/jsonp",
          "application/merge-patch+json",
          "application/x-www-form-urlencoded",
          "multipart/form-data; boundary=x",
          "application/json; charset=latin1",
          "application/json; charset=utf-16",
          "application/json, text/plain",
          `application/json${" ".repeat(15_000)}x`
        ]
      ) {
        refused(yield* send({ "content-type": type }), 415, "unsupported_media_type")
      }
      for (const encoding of ["gzip", "br", "deflate", "identity, gzip"]) {
        refused(yield* send({ "content-encoding": encoding }, gzipSync(body)), 415, "unsupported_media_type")
      }
    }))

  it.effect("may nest 32 levels and not 33, brackets in strings aside", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const message = (body: string) => Effect.map(ask(SANDBOXES, { key, body }), (reply) => json(reply).error.message as string)
      assert.notMatch(yield* message(`{"a":${nested(32)}}`), /nesting/u)
      assert.match(yield* message(`{"a":${nested(33)}}`), /nesting/u)
      yield* create(key, { prompt: `${"[{".repeat(50)} \\" ${"\"[".repeat(50)}` })
    }))
})

layer(http(), { excludeTestServices: true })("a creation", (it) => {
  it.effect("tells where in the body a fault lies, and never what was there", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const message = (more: object) => Effect.map(postJson(SANDBOXES, key, { ...creation, ...more }), (reply) => json(reply).error.message)
      assert.strictEqual(
        yield* message({ repos: [{ fullName: "acme/shop" }, { fullName: "secret" }] }),
        "repos[1].fullName: owner/name expected"
      )
      assert.strictEqual(yield* message({ prompt: undefined }), "prompt: required")
      assert.strictEqual(yield* message({ secret: 1 }), "secret: unknown property")
      assert.strictEqual(yield* message({ metadata: { ticket: 42 } }), "metadata.ticket: string expected")
      assert.strictEqual(yield* message({ title: "" }), "title: 1 to 120 characters expected")
      assert.ok((yield* message({ ["a".repeat(10_000)]: 1 })).length < 200)
    }))

  it.effect("keeps metadata a plain dictionary", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const send = (metadata: string) => ask(SANDBOXES, { key, body: `{"repos":[{"fullName":"a/b"}],"prompt":"x","metadata":${metadata}}` })
      refused(yield* send(`{"__proto__":"x"}`), 400, "invalid_request")
      refused(yield* send(`{"__proto__":{"admin":"yes"}}`), 400, "invalid_request")
      const reply = yield* send(`{"constructor":"a","hasOwnProperty":"b"}`)
      assert.deepStrictEqual(json(reply).metadata, { constructor: "a", hasOwnProperty: "b" })
      refused(
        yield* ask(SANDBOXES, { key, body: `{"repos":[{"fullName":"a/b"}],"prompt":"x","__proto__":{"title":"y"}}` }),
        400,
        "invalid_request"
      )
    }))
})
