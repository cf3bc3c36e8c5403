import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as ModelGatewayMemory from "@slipway/domain/memory/models/ModelGatewayMemory"
import { MemoryModel } from "@slipway/domain/memory/models/ModelGatewayMemory"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { credited, GatewayFixture, PRICES, suite } from "@slipway/testing/contracts/models/ModelGatewayContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

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
      fail: (access) => model.fail(access, "The provider does not know the key."),
      asked: Effect.sleep("10 millis")
    })
  })
)

const layer = Fixture.pipe(
  Layer.provideMerge(ModelGatewayMemory.layer),
  Layer.provideMerge(SpendingMemory.layer),
  Layer.provideMerge(PartnerStoreMemory.layer),
  Layer.provideMerge(IdsMemory.layer)
)

export const suites = () => [
  suite("memory", layer),
  credited("memory", layer.pipe(Layer.provide(Layer.succeed(CreditPrice, 10))))
]
