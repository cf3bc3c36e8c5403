/** Translates requests about pull requests into domain calls. */
import { Api } from "@slipway/api/Api"
import { Unavailable } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { respond } from "../server/reply/Respond.ts"

/** Seconds to wait for a source host that did not say how long. */
const RETRY_SECONDS = 5

const busy = ({ retryAfter = RETRY_SECONDS }: SourceHostError) =>
  Effect.succeed(respond(Unavailable.make("The source host cannot answer now.", { "retry-after": String(Math.max(1, retryAfter)) })))

export const layer = HttpApiBuilder.group(
  Api,
  "pullRequests",
  Effect.fn(function*(handlers) {
    const publishing = yield* Publishing

    return handlers.handleAll({
      publishPullRequest: Effect.fnUntraced(
        function*({ params: { sandboxId }, payload: { repo } }) {
          return yield* publishing.publish(yield* CurrentPrincipal, sandboxId, repo)
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
