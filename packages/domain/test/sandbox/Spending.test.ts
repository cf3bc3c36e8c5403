import { AccessStore } from "@slipway/domain/access/AccessStore"
import { Ids } from "@slipway/domain/Ids"
import { CreditPrice } from "@slipway/domain/partner/Credits"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { Budgets } from "@slipway/domain/sandbox/Budget"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { Spending } from "@slipway/domain/sandbox/Spending"
import { CREDIT_PRICE, credited, LIMITS, limited, SpendingFixture, suite } from "@slipway/domain/testing/SpendingContract"
import { DateTime, Effect, Layer } from "effect"

const Fixture = Layer.effect(
  SpendingFixture,
  Effect.gen(function*() {
    const ids = yield* Ids
    const access = yield* AccessStore
    return SpendingFixture.of({
      organization: ids.uuid7,
      grant: Effect.fnUntraced(function*(organizationId) {
        const id = yield* ids.uuid7
        yield* access.createGrant({ id, name: id, organizationId, createdAt: yield* DateTime.now })
        return id
      }, Effect.orDie),
      sandbox: () => Effect.map(ids.random(ID_ALPHABET, 12), (random) => SandboxId.make(`c_${random}`))
    })
  })
)

const layer = Layer.mergeAll(Spending.layerMemory, Fixture).pipe(
  Layer.provideMerge(PartnerStore.layerMemory),
  Layer.provideMerge(AccessStore.layerMemory),
  Layer.provideMerge(Ids.layerMemory)
)

suite("memory", layer)
limited("memory", layer.pipe(Layer.provide(Layer.succeed(Budgets, LIMITS))))
credited("memory", layer.pipe(Layer.provide(Layer.mergeAll(Layer.succeed(Budgets, LIMITS), Layer.succeed(CreditPrice, CREDIT_PRICE)))))
