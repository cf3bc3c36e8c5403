import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { providerErrorOf } from "../src/server/ProviderErrors.ts"
import { KEY, layer, open, upstreamOf } from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const body = { model: "m", messages: [{ role: "user", content: "hi" }] }
const ANSWER = {
  id: "1",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1 }
}

describe("a provider that does not answer", () => {
  it.live("is told to the sandbox with what to do, and to the operator once for each kind until it answers again", () => {
    const lines: Array<string> = []
    const logs = Logger.layer([Logger.make<unknown, void>(({ message }) => {
      lines.push(JSON.stringify(message))
    })])
    return Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access, account, of } = yield* open(upstreamOf("openai-chat", provider.baseUrl))
      const refuse = (status: number, message: string) =>
        Effect.suspend(() => {
          provider.answer = ({ response }) => Provider.json(response, status, { error: { message } })
          return Provider.ask(access, "/v1/chat/completions", body)
        })
      const told = Effect.map(account, ({ trouble }) => trouble?.message)

      yield* refuse(401, `Incorrect API key provided: ${KEY}`)
      assert.match(
        (yield* told) ?? "",
        /refuses this service: the key in PROVIDER_KEY \(status 401\)\. The operator must set a valid key\.$/u
      )
      yield* refuse(401, "no")
      yield* refuse(429, "You exceeded your current quota: insufficient_quota")
      assert.match((yield* told) ?? "", /is used up \(status 429\)/u)
      yield* refuse(400, "bad request")
      assert.strictEqual(lines.length, 2, lines.join("\n"))
      assert.include(lines[0], of.sandboxId)
      assert.include(lines[0], "PROVIDER_KEY")
      assert.notInclude(lines.join("\n"), KEY)

      provider.answer = ({ response }) => Provider.json(response, 200, ANSWER)
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", body)).status, 200)
      assert.isUndefined(yield* told)
      yield* refuse(401, "no")
      assert.strictEqual(lines.length, 3)
    }).pipe(Effect.scoped, Effect.provide(layer().pipe(Layer.provideMerge(logs))))
  })

  it("is troubled by what an operator or time can mend, not by a wrong request", () => {
    const upstream = upstreamOf("openai-chat", "https://models.example/v1")
    const kindOf = (status: number | null, said = "") => providerErrorOf(upstream, status, said)?.kind
    assert.deepStrictEqual(
      [401, 403, 402, 429, 404, 500, 503, null].map((status) => kindOf(status)),
      ["key", "key", "account", "rate", "model", "provider", "provider", "provider"]
    )
    assert.strictEqual(kindOf(400, "Your credit balance is too low to access the API."), "account")
    assert.isUndefined(kindOf(400, "max_tokens is too large"))
    assert.match(providerErrorOf({ ...upstream, keyVariable: null }, 401, "")?.message ?? "", /asked without a key/u)
  })
})
