/** The answer of the database function `take_rate_slots` for the windows of credential, user and grant, in this order. */
import type { RateLimits, RateSlot } from "@slipway/domain/access/ports/AccessStore"
import { Schema } from "effect"
import { Int8 } from "../../sql/Int8.ts"

export const RateSlotRow = Schema.Struct({ taken: Schema.Boolean, remaining: Schema.Int, resetMillis: Int8, tightest: Schema.Int })

const LIMITS: ReadonlyArray<keyof RateLimits> = ["credential", "user", "grant"]

export const slotOf = ({ remaining, resetMillis, taken, tightest }: typeof RateSlotRow.Type): RateSlot => ({
  accepted: taken,
  remaining,
  resetSeconds: Math.max(1, Math.ceil(resetMillis / 1000)),
  limit: LIMITS[tightest - 1] ?? "credential"
})
