/** Translates people's feedback into domain calls. */
import { Api } from "@slipway/api/Api"
import { NotFound } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { Effect, Option } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { respond } from "../server/reply/Respond.ts"

/** Without `Feedback` there is none. */
const none = Effect.sync(() => respond(NotFound.make("This service takes no feedback.")))

export const layer = HttpApiBuilder.group(
  Api,
  "feedback",
  Effect.fn(function*(handlers) {
    const found = yield* Effect.serviceOption(Feedback)

    return handlers.handleAll({
      requestChanges: Effect.fnUntraced(
        function*({ params: { sandboxId }, payload: { checks = false, comments = [], repo, text = "" } }) {
          const by = yield* CurrentPrincipal
          if (Option.isNone(found)) return yield* none
          return yield* found.value.request(by, sandboxId, {
            repo,
            text,
            comments: comments.map(({ line = null, path, text }) => ({ path, line, text })),
            checks,
            authorName: by.userId
          })
        }
      ),
      resumeFeedback: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        const by = yield* CurrentPrincipal
        return Option.isNone(found) ? yield* none : yield* found.value.resume(by, sandboxId)
      })
    })
  })
)
