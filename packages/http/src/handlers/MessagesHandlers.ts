/** Translates requests about a sandbox's conversation into domain calls. */
import { Api } from "@slipway/api/Api"
import { Sent, SentBefore } from "@slipway/api/groups/MessagesApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import { bytesOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { nextPage } from "@slipway/domain/store/Page"
import { Effect, Option } from "effect"
import { HttpApiBuilder } from "effect/http-api"

export const layer = HttpApiBuilder.group(
  Api,
  "messages",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes

    return handlers.handleAll({
      sendMessage: Effect.fnUntraced(function*({ headers, params: { sandboxId }, payload: { files, prompt, whenBusy } }) {
        const key = Option.fromUndefinedOr(headers["idempotency-key"])
        const result = yield* sandboxes.sendMessage(yield* CurrentPrincipal, sandboxId, prompt, key, whenBusy, files)
        return result.outcome === "duplicate" ? new SentBefore({ result }) : new Sent({ result })
      }),
      cancelMessage: Effect.fnUntraced(function*({ params: { messageId, sandboxId } }) {
        return yield* sandboxes.cancelMessage(yield* CurrentPrincipal, sandboxId, messageId)
      }),
      listMessages: Effect.fnUntraced(function*({ params: { sandboxId }, query: { after = 0, limit = MAX_LIMIT } }) {
        const by = yield* CurrentPrincipal
        const { more, page } = yield* nextPage(
          limit,
          bytesOf.message,
          (last, limit) => sandboxes.messages(by, sandboxId, { after: last?.seq ?? after, limit })
        )
        return {
          data: page.map(({ files = [], ...message }) => ({ ...message, files })),
          nextCursor: more === null ? null : String(more.seq)
        }
      })
    })
  })
)
