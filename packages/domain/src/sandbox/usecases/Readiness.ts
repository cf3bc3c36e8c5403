/** Whether a process can do its part, for supervisors. */
import * as Effect from "effect/Effect"
import { StoreHealth } from "../../store/StoreHealth.ts"
import { ClockSkew, skewProblem } from "./StoreClock.ts"

/**
 * Says why this process can serve nobody just now: a sentence for people, with nothing internal; `null`: it can. `asked`: a question
 * about nothing to its store; any answer will do, if it comes soon.
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
