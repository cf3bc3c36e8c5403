/** Tells supervisors whether the process lives and whether it can serve. */
import { Api } from "@slipway/api/Api"
import { Unavailable } from "@slipway/api/shared/Errors"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import * as Readiness from "@slipway/domain/sandbox/usecases/Readiness"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { LiveResponses } from "../server/connection/LiveResponses.ts"
import { respond } from "../server/reply/Respond.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fn(function*(handlers) {
    const live = yield* LiveResponses
    const access = yield* AccessStore
    const worker = yield* WorkerReadiness
    const problemWith = yield* Readiness.make
    const notReady = (reason: string) => respond(Unavailable.make(reason, { "retry-after": "1" }))

    return handlers.handleAll({
      getHealth: () => Effect.succeed({ status: "ok" as const }),
      getReadiness: () =>
        Effect.gen(function*() {
          if (live.isShuttingDown()) return notReady("The service is shutting down.")
          const problem = yield* problemWith(access.stillGood([]))
          if (problem !== null) return notReady(problem)
          // Requests are answered, whatever the worker of this process does.
          const ofWorker = yield* worker.problem
          return { status: "ok" as const, ...(ofWorker === null ? {} : { problem: ofWorker }) }
        })
    })
  })
)
