import { describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { attributionLaws, Incoming } from "@slipway/domain/testing/AttributionLaws"

describe("attribution, of any facts in any order", () => {
  const facts = Schema.Array(Incoming).check(Schema.isMinLength(20), Schema.isMaxLength(40))
  for (const { holds, name } of attributionLaws) it.prop(name, [facts], ([given]) => holds(given), { arbitrary: { runs: 300 } })
})
