/** Translates requests about the partner feed into domain calls. */
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { CurrentPrincipal } from "../api/Middleware.ts"
import { MAX_LIMIT } from "../api/Parameters.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "partner",
  Effect.fn(function*(handlers) {
    const partners = yield* Partners

    return handlers.handleAll({
      listPartnerEvents: Effect.fnUntraced(function*({ query: { after = 0, limit = MAX_LIMIT } }) {
        const { events, nextCursor } = yield* partners.feed(yield* CurrentPrincipal, { after, limit })
        return { data: events, nextCursor }
      })
    })
  })
)
