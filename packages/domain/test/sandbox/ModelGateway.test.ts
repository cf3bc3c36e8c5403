import { Ids } from "@slipway/domain/Ids"
import { CreditPrice } from "@slipway/domain/partner/Credits"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import type { Upstream } from "@slipway/domain/sandbox/ModelCatalogue"
import { MemoryModel, ModelGateway } from "@slipway/domain/sandbox/ModelGateway"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { Spending } from "@slipway/domain/sandbox/Spending"
import { credited, GatewayFixture, PRICES, suite } from "@slipway/domain/testing/ModelGatewayContract"
import { Effect, Layer } from "effect"

const upstream: Upstream = {
  protocol: "openai-chat",
  baseUrl: "https://models.invalid/v1",
  model: "memory-1",
  keyVariable: null,
  prices: PRICES,
  contextTokens: 1000,
  outputTokens: 100
}

const Fixture = Layer.effect(
  GatewayFixture,
  Effect.gen(function*() {
    const ids = yield* Ids
    const model = yield* MemoryModel
    return GatewayFixture.of({
      sandbox: Effect.all({
        sandboxId: Effect.map(ids.random(ID_ALPHABET, 12), (random) => SandboxId.make(`c_${random}`)),
        grantId: ids.uuid7
      }),
      upstream,
      ask: (...request) => Effect.orDie(model.ask(...request)),
      asked: Effect.sleep("10 millis")
    })
  })
)

const layer = Fixture.pipe(
  Layer.provideMerge(ModelGateway.layerMemory),
  Layer.provideMerge(Spending.layerMemory),
  Layer.provideMerge(PartnerStore.layerMemory),
  Layer.provideMerge(Ids.layerMemory)
)

suite("memory", layer)
credited("memory", layer.pipe(Layer.provide(Layer.succeed(CreditPrice, 10))))
