import { describe, it } from "@effect/vitest"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { attributionLaws, checkAttribution, Incoming } from "@slipway/domain/testing/AttributionLaws"
import { PartnerFixture } from "@slipway/domain/testing/PartnerStoreContract"
import { Effect, Layer, Schema } from "effect"

describe("attribution, of any facts in any order", () => {
  const facts = Schema.Array(Incoming).check(Schema.isMinLength(20), Schema.isMaxLength(40))
  for (const { holds, name } of attributionLaws) it.prop(name, [facts], ([given]) => holds(given), { arbitrary: { runs: 300 } })
})

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(PartnerFixture)({ grant: ids.uuid7 })))

checkAttribution(
  "memory",
  Layer.merge(SandboxStore.layerMemory, Fixture).pipe(
    Layer.provideMerge(PartnerStore.layerMemory),
    Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, Ids.layerSeeded("laws")))
  )
)
