/** Translates requests about pull requests into domain calls. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { busy } from "../server/reply/HostBusy.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "pullRequests",
  Effect.fn(function*(handlers) {
    const publishing = yield* Publishing

    return handlers.handleAll({
      publishPullRequest: Effect.fnUntraced(
        function*({ params: { sandboxId }, payload: { ready, repo } }) {
          return yield* publishing.publish(yield* CurrentPrincipal, sandboxId, repo, { ready })
        },
        // It told when to come back: that is a rate limit, not a failure.
        Effect.catchTag("SourceHostError", (error) => error.retryAfter === undefined ? Effect.fail(error) : busy(error))
      ),
      getPullRequest: Effect.fnUntraced(function*({ params: { sandboxId }, query: { repo } }) {
        return yield* publishing.status(yield* CurrentPrincipal, sandboxId, repo)
      }, Effect.catchTag("SourceHostError", busy))
    })
  })
)
