import { Effect, Layer } from "effect"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { PartnerFixture, suite } from "@slipway/domain/testing/PartnerStoreContract"

const Fixture = Layer.effect(
  PartnerFixture,
  Effect.map(Ids, (ids) => PartnerFixture.of({ grant: ids.uuid7, linger: Effect.yieldNow, rolledBack: () => Effect.yieldNow }))
)

suite("memory", Layer.mergeAll(PartnerStore.layerMemory, Fixture).pipe(Layer.provideMerge(Ids.layerMemory)))
