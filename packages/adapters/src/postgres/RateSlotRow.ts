/** What the function `take_rate_slot` of the database says. */
import { Schema } from "effect"
import type { RateSlot } from "@slipway/domain/access/AccessStore"
import { Int8 } from "./Int8.ts"

export const RateSlotRow = Schema.Struct({ taken: Schema.Boolean, remaining: Schema.Int, resetMillis: Int8 })

export const slotOf = ({ remaining, resetMillis, taken }: typeof RateSlotRow.Type): RateSlot => ({
  accepted: taken,
  remaining,
  resetSeconds: Math.max(1, Math.ceil(resetMillis / 1000))
})
