/** The memory layer of the domain needs real ids, so its suite runs here. */
import { Effect, Layer } from "effect"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { PartnerFixture, suite } from "@slipway/domain/testing/PartnerStoreContract"

const Fixture = Layer.effect(
  PartnerFixture,
  Effect.map(Ids, (ids) => PartnerFixture.of({ grant: ids.uuid7, linger: Effect.yieldNow, rolledBack: () => Effect.yieldNow }))
)

suite("memory", Layer.mergeAll(PartnerStore.layerMemory, Fixture).pipe(Layer.provideMerge(IdsNode.layer)))
