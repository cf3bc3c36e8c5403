import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { checkFeed } from "@slipway/domain/testing/Laws"
import { PartnerFixture } from "@slipway/domain/testing/PartnerStoreContract"
import { Effect, Layer } from "effect"

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(PartnerFixture)({ grant: ids.uuid7 })))

checkFeed("memory", Layer.mergeAll(PartnerStore.layerMemory, Fixture).pipe(Layer.provideMerge(Ids.layerSeeded("laws"))))
