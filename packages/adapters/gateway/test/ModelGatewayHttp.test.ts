import { Ids } from "@slipway/domain/ids/Ids"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { credited, GatewayFixture, suite } from "@slipway/testing/contracts/models/ModelGatewayContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, FiberSet, Layer } from "effect"
import * as Gateway from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

/** Stated answers: the request says what it is to cost. */
const Fixture = Layer.effect(
  GatewayFixture,
  Effect.gen(function*() {
    const provider = yield* Provider.start
    const ids = yield* Ids
    const run = yield* FiberSet.makeRuntime()
    const held = new Map<string, Effect.Effect<void>>()
    provider.answer = ({ body, response }) => {
      const { cachedInput, input, isRefused, name, output } = JSON.parse(body.messages[0].content)
      if (isRefused) return Provider.json(response, 401, { error: { message: "no" } })
      run(Effect.map(held.get(name) ?? Effect.void, () =>
        Provider.json(response, 200, {
          choices: [],
          usage: { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: { cached_tokens: cachedInput } }
        })))
    }
    return GatewayFixture.of({
      sandbox: Effect.provideService(Gateway.newSandbox, Ids, ids),
      upstream: Gateway.upstreamOf("openai-chat", provider.baseUrl),
      ask: Effect.fnUntraced(function*(access, tokens, answered = Effect.void) {
        const name = yield* ids.uuid7
        held.set(name, answered)
        const { broken, status } = yield* Provider.ask(access, "/v1/chat/completions", {
          model: "any",
          messages: [{ role: "user", content: JSON.stringify({ ...tokens, name }) }]
        })
        return broken ? "cut" : status === 401 ? "unauthorized" : status === 402 ? "over_budget" : "served"
      }),
      fail: (access) =>
        Effect.asVoid(Provider.ask(access, "/v1/chat/completions", {
          model: "any",
          messages: [{ role: "user", content: JSON.stringify({ isRefused: true }) }]
        })),
      asked: Effect.gen(function*() {
        let request = yield* provider.next
        while (request.response.writableFinished) request = yield* provider.next
      })
    })
  })
)

register(suite("http", Fixture.pipe(Layer.provideMerge(Gateway.layer()))))

const onCredits = Gateway.layerOn(SpendingMemory.layer.pipe(Layer.provideMerge(PartnerStoreMemory.layer), Layer.provide(IdsNode.layer)))
register(credited("http", Fixture.pipe(Layer.provideMerge(onCredits), Layer.provide(Layer.succeed(CreditPrice, 10)))))
