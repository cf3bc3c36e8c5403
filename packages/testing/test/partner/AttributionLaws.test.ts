import { describe, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerFixture } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { attributionLaws, checkAttribution, Incoming } from "@slipway/testing/laws/AttributionLaws"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

describe("attribution, of any facts in any order", () => {
  const facts = Schema.Array(Incoming).check(Schema.isMinLength(20), Schema.isMaxLength(40))
  for (const { holds, name } of attributionLaws) it.prop(name, [facts], ([given]) => holds(given), { arbitrary: { runs: 300 } })
})

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(PartnerFixture)({ grant: ids.uuid7 })))

register(checkAttribution(
  "memory",
  Layer.merge(SandboxStoreMemory.layer, Fixture).pipe(
    Layer.provideMerge(PartnerStoreMemory.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layerSeeded("laws")))
  )
))
