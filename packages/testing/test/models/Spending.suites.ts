import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { CREDIT_PRICE, credited, LIMITS, limited, SpendingFixture, suite } from "@slipway/testing/contracts/models/SpendingContract"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

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

const layer = Layer.mergeAll(SpendingMemory.layer, Fixture).pipe(
  Layer.provideMerge(PartnerStoreMemory.layer),
  Layer.provideMerge(AccessStoreMemory.layer),
  Layer.provideMerge(IdsMemory.layer)
)

const budgets = Layer.succeed(Budgets, LIMITS)

export const suites = () => [
  suite("memory", layer),
  limited("memory", layer.pipe(Layer.provide(budgets))),
  credited("memory", layer.pipe(Layer.provide(Layer.mergeAll(budgets, Layer.succeed(CreditPrice, CREDIT_PRICE)))))
]
