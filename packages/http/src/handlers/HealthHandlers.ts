import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Unavailable } from "../api/Errors.ts"
import { LiveResponses } from "../middleware/LiveResponses.ts"
import { respond } from "../middleware/Respond.ts"
import { Settings } from "../middleware/Settings.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fn(function*(handlers) {
    const live = yield* LiveResponses
    const { ready } = yield* Settings
    const notReady = (reason: string) => respond(Unavailable.make(reason, { "retry-after": "1" }))

    return handlers.handleAll({
      getHealth: () => Effect.succeed({ status: "ok" as const }),
      getReadiness: () =>
        live.isShuttingDown()
          ? Effect.succeed(notReady("The service is shutting down."))
          : Effect.match(ready, { onSuccess: () => ({ status: "ok" as const }), onFailure: ({ message }) => notReady(message) })
    })
  })
)
