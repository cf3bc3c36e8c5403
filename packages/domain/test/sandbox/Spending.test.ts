import { Effect, Layer } from "effect"
import { Ids } from "@slipway/domain/Ids"
import { Budgets } from "@slipway/domain/sandbox/Budget"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { Spending } from "@slipway/domain/sandbox/Spending"
import { LIMITS, limited, SpendingFixture, suite } from "@slipway/domain/testing/SpendingContract"

const Fixture = Layer.effect(
  SpendingFixture,
  Effect.map(Ids, (ids) =>
    SpendingFixture.of({
      grant: ids.uuid7,
      sandbox: () => Effect.map(ids.random(ID_ALPHABET, 12), (random) => SandboxId.make(`c_${random}`))
    }))
)

const layer = Layer.mergeAll(Spending.layerMemory, Fixture).pipe(Layer.provideMerge(Ids.layerMemory))

suite("memory", layer)
limited("memory", layer.pipe(Layer.provide(Layer.succeed(Budgets, LIMITS))))
