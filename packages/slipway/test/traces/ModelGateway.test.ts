import { assert, it } from "@effect/vitest"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { KEY, layer, open, upstreamOf } from "@slipway/gateway/testing/Gateway"
import * as Provider from "@slipway/gateway/testing/Provider"
import { Effect } from "effect"
import { collecting, collector, options, spansOf } from "./Collector.ts"

const answering = (status: number, body: object): Provider.Provider["answer"] => ({ response }) => Provider.json(response, status, body)

it.live("each request to a model is a span of the turn that asks, with what it took and nothing that was said", () =>
  Effect.gen(function*() {
    const provider = yield* Provider.start
    const { bodies, url } = yield* collector()
    const chats = () => spansOf(bodies).filter(({ name }) => name === "chat the-model")
    // An answer is at its reader a moment before the request for it ends.
    const ended = Effect.fnUntraced(function*(count: number) {
      while (chats().length < count) yield* Effect.sleep("5 millis")
    })
    const asking = Effect.gen(function*() {
      const activity = new RootSpan.Activity()
      const { access, of } = yield* open(upstreamOf("openai-chat", provider.baseUrl)).pipe(
        Effect.provideService(RootSpan.CurrentActivity, activity)
      )
      const ask = Provider.ask(access, "/v1/chat/completions", { model: "x", messages: [{ role: "user", content: "promptcanary" }] })
      provider.answer = answering(200, {
        choices: [{ message: { content: "answercanary" } }],
        usage: { prompt_tokens: 900, completion_tokens: 77 }
      })
      yield* Effect.gen(function*() {
        activity.current = RootSpan.current(yield* Effect.context<never>()) ?? null
        assert.strictEqual((yield* ask).status, 200)
        yield* ended(1)
        provider.answer = answering(400, { error: { message: "errorcanary" } })
        assert.strictEqual((yield* ask).status, 400)
        yield* ended(2)
      }).pipe(RootSpan.traced("turn"))
      return of.sandboxId
    })
    const sandboxId = yield* collecting(Effect.scoped(Effect.provide(asking, layer())), { ...options(url), interval: 10 })

    const turn = spansOf(bodies).find(({ name }) => name === "turn")
    const asked = chats()
    assert.isDefined(turn)
    assert.deepStrictEqual(asked.map(({ kind, parentSpanId, traceId }) => [traceId, parentSpanId, kind]), [
      [turn?.traceId, turn?.spanId, 3],
      [turn?.traceId, turn?.spanId, 3]
    ])
    const told = (status: number, input: number, output: number) => ({
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "the-model",
      "gen_ai.conversation.id": sandboxId,
      "server.address": "127.0.0.1",
      "http.response.status_code": status,
      "gen_ai.usage.input_tokens": input,
      "gen_ai.usage.output_tokens": output
    })
    const attributes = asked.map((span) => Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])))
    assert.deepStrictEqual(attributes, [told(200, 900, 77), told(400, 0, 0)])
    assert.notMatch(bodies.join(), /canary/u)
    assert.notInclude(bodies.join(), KEY)
  }))
