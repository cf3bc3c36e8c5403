/** Translates requests about a sandbox's conversation into domain calls. */
import { Effect, Option } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { Api } from "../api/Api.ts"
import { CurrentPrincipal } from "../api/Middleware.ts"
import { Sent, SentBefore } from "../api/MessagesApi.ts"
import { MAX_LIMIT } from "../api/Parameters.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "messages",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes

    return handlers.handleAll({
      sendMessage: Effect.fnUntraced(function*({ headers, params: { sandboxId }, payload: { prompt } }) {
        const key = Option.fromUndefinedOr(headers["idempotency-key"])
        const result = yield* sandboxes.sendMessage(yield* CurrentPrincipal, sandboxId, prompt, key)
        return result.outcome === "duplicate" ? new SentBefore({ result }) : new Sent({ result })
      }),
      listMessages: Effect.fnUntraced(function*({ params: { sandboxId }, query: { after = 0, limit = MAX_LIMIT } }) {
        // One more than asked for tells whether there is a next page.
        const found = yield* sandboxes.messages(yield* CurrentPrincipal, sandboxId, { after, limit: limit + 1 })
        const page = found.slice(0, limit)
        const last = page.at(-1)
        return {
          data: page,
          nextCursor: found.length > limit && last !== undefined ? String(last.seq) : null
        }
      })
    })
  })
)
