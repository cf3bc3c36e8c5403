/** Keys that change while sessions are open. */
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const keys = new Map<string, Redacted.Redacted>()
const asked: Array<string> = []
const get = (variable: string, baseUrl: string) => {
  asked.push(`${variable} ${baseUrl}`)
  return keys.get(variable)
}
const body = { model: "m", max_tokens: 100, messages: [] }

it.live("the next request has the new key, and after a removal no request goes out and the account says why", () =>
  Effect.gen(function*() {
    keys.set("PROVIDER_KEY", Redacted.make("first-key-1"))
    const provider = yield* Provider.start
    provider.answer = ({ response }) => Provider.json(response, 200, { choices: [] })
    const { access, account } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
    const ask = Effect.map(Provider.ask(access, "/v1/chat/completions", body), ({ status }) => status)
    assert.strictEqual(yield* ask, 200)
    keys.set("PROVIDER_KEY", Redacted.make("second-key-2"))
    assert.strictEqual(yield* ask, 200)
    keys.clear()
    assert.strictEqual(yield* ask, 403)
    assert.deepStrictEqual(provider.asked.map(({ headers }) => headers.authorization), ["Bearer first-key-1", "Bearer second-key-2"])
    assert.deepStrictEqual([...new Set(asked)], [`PROVIDER_KEY ${provider.baseUrl}`])
    const { trouble, usage } = yield* account
    assert.include(trouble?.message, "was removed or changed")
    assert.strictEqual(usage.llmRequestCount, 2)
    assert.strictEqual((yield* Effect.flip(open(upstreamOf("openai-chat", provider.baseUrl))))._tag, "ModelGatewayError")
  }).pipe(Effect.scoped, Effect.provide(layer({ keys: { get } }))))
