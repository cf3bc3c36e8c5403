import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import { PartnerFixture } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { checkFeed } from "@slipway/testing/laws/Laws"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(PartnerFixture)({ grant: ids.uuid7 })))

register(checkFeed("memory", Layer.mergeAll(PartnerStoreMemory.layer, Fixture).pipe(Layer.provideMerge(IdsMemory.layerSeeded("laws")))))
