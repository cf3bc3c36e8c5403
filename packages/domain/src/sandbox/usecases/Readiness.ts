/** Whether a process is ready, for supervisors. */
import * as Effect from "effect/Effect"
import { StoreHealth } from "../../store/StoreHealth.ts"
import { ClockSkew, skewProblem } from "./StoreClock.ts"

/**
 * Makes the check. It returns why this process cannot serve now, as a sentence for people without internal details; `null`: it can.
 * `asked`: a query to the store, which must be answered in time with any result.
 */
export const make = Effect.gen(function*() {
  const skew = yield* ClockSkew
  const trouble = yield* StoreHealth
  return <A, E, R>(asked: Effect.Effect<A, E, R>): Effect.Effect<string | null, never, R> =>
    Effect.matchEffect(Effect.timeout(asked, "2 seconds"), {
      onSuccess: () => Effect.map(Effect.zip(skew, trouble), ([millis, trouble]) => skewProblem(millis) ?? trouble),
      onFailure: () => Effect.succeed("The store is not available.")
    })
})
