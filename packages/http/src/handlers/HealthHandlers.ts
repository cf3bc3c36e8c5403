/** Tells supervisors whether the process lives and whether it can serve. */
import { AccessStore } from "@slipway/domain/access/AccessStore"
import { ClockSkew, skewProblem } from "@slipway/domain/sandbox/StoreClock"
import { StoreTrouble } from "@slipway/domain/StoreTrouble"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Unavailable } from "../api/Errors.ts"
import { LiveResponses } from "../server/LiveResponses.ts"
import { respond } from "../server/Respond.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fn(function*(handlers) {
    const live = yield* LiveResponses
    const access = yield* AccessStore
    const skew = yield* ClockSkew
    const trouble = yield* StoreTrouble
    const notReady = (reason: string) => respond(Unavailable.make(reason, { "retry-after": "1" }))

    return handlers.handleAll({
      getHealth: () => Effect.succeed({ status: "ok" as const }),
      getReadiness: () =>
        live.isShuttingDown()
          ? Effect.succeed(notReady("The service is shutting down."))
          // A question about nothing: any answer will do, if it comes soon.
          : Effect.matchEffect(Effect.timeout(access.stillGood([]), "2 seconds"), {
            onSuccess: () =>
              Effect.map(Effect.zip(skew, trouble), ([millis, trouble]) => {
                const problem = skewProblem(millis) ?? trouble
                return problem === null ? { status: "ok" as const } : notReady(problem)
              }),
            onFailure: () => Effect.succeed(notReady("The store is not available."))
          })
    })
  })
)
