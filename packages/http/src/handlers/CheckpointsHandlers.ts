/** Translates requests about a sandbox's checkpoints into domain calls. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import { bytesOf } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { nextPage } from "@slipway/domain/store/Page"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

export const layer = HttpApiBuilder.group(
  Api,
  "checkpoints",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes

    return handlers.handleAll({
      listCheckpoints: Effect.fnUntraced(function*({ params: { sandboxId }, query: { after = 0, limit = MAX_LIMIT } }) {
        const by = yield* CurrentPrincipal
        const { more, page } = yield* nextPage(
          limit,
          bytesOf,
          (last, limit) => sandboxes.checkpoints(by, sandboxId, { after: last?.checkpoint ?? after, limit })
        )
        return { data: page, nextCursor: more === null ? null : String(more.checkpoint) }
      })
    })
  })
)
