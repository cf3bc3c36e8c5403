/** Reservations before a request is sent, and charges after it. */
import type { ModelCall, Spending } from "@slipway/domain/models/ports/Spending"
import { noTokenCounts } from "@slipway/domain/models/rules/Usage"
import { Cause, Effect, Schedule } from "effect"
import type { Took } from "./LiveAccount.ts"

/** How long the end of a session waits for the ledger. Charges go on after it. */
export const CHARGE_WAIT = "5 seconds"

/** Charges the call, and retries for ten minutes. `null`: the request was never sent. */
export const charge = (spending: Spending["Service"], call: ModelCall, took: Took | null) =>
  spending.charge(call, took?.microUsd ?? null, took?.tokens ?? noTokenCounts).pipe(
    Effect.retry(
      Schedule.upTo(Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("10 seconds")]), { duration: "10 minutes" })
    ),
    Effect.tapCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.void
        : Effect.logError("what a request to a model cost could not be recorded", { ...call, ...took }, cause)
    ),
    Effect.ignoreCause
  )

/** Reserves the highest possible cost of the call. Waits up to `holdMillis` while other calls hold the rest of the budget or credits. */
export const reserve = (spending: Spending["Service"], call: ModelCall, microUsd: number, holdMillis: number) => {
  const attempts = Math.max(1, Math.ceil(holdMillis / 250))
  return spending.reserve(call, microUsd).pipe(
    Effect.retry({
      while: (error) => error._tag !== "StoreUnavailable" && error.held,
      schedule: Schedule.spaced("250 millis"),
      times: attempts
    })
  )
}
