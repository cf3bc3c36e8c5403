/** Translates requests about the partner feed into domain calls. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

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
