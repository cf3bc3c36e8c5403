/** The refs whose setups have secrets, over the internal API. */
import { assert, layer } from "@effect/vitest"
import { MAX_TRUSTED_REFS } from "@slipway/domain/environment/rules/SetupTrust"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect } from "effect"
import { ask, layer as http, mintKey } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/trusted-refs"
const of = (ref: string, repo = "acme/shop") => `${PATH}?${new URLSearchParams({ repo, ref }).toString()}`

layer(http(), { excludeTestServices: true })("trusted refs", (it) => {
  it.effect("are of the key's grant, are listed once, and go", () =>
    Effect.gen(function*() {
      const keyOf = Effect.gen(function*() {
        return (yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["secrets"] })).key
      })
      const [key, other] = [yield* keyOf, yield* keyOf]
      const trust = (ref: string, by = key, repo = "acme/shop") =>
        ask(PATH, { key: by, method: "POST", body: JSON.stringify({ repo, ref }) })
      const refs = Effect.map(ask(PATH, { key }), ({ text }) => JSON.parse(text).data.map(({ ref }: { ref: string }) => ref))
      const made = yield* trust("release/*")
      assert.strictEqual(made.status, 201)
      assert.hasAllKeys(JSON.parse(made.text), ["repo", "ref", "listedAt"])
      assert.strictEqual((yield* trust("release/*")).text, made.text)
      yield* trust("develop")
      yield* trust("theirs", other)
      assert.deepStrictEqual(yield* refs, ["develop", "release/*"])
      for (const ref of ["slipway/c_bbbbbbbbbbbb", "slipway/*", "*", "", "a b", "a".repeat(40)]) {
        assert.strictEqual((yield* trust(ref)).status, 400, ref)
      }
      assert.strictEqual((yield* trust("x", key, "shop")).status, 400)
      assert.strictEqual((yield* ask(of("theirs"), { key, method: "DELETE" })).status, 404)
      assert.strictEqual((yield* ask(of("develop", "ACME/shop"), { key, method: "DELETE" })).status, 204)
      assert.strictEqual((yield* ask(of("develop"), { key, method: "DELETE" })).status, 404)
      assert.deepStrictEqual(yield* refs, ["release/*"])
      for (let i = 1; i < MAX_TRUSTED_REFS; i++) yield* trust(`v${i}`)
      assert.strictEqual((yield* trust("one-more")).status, 409)
    }))
})
