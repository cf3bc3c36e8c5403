/** Translates requests about trusted refs into domain calls. */
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

export const layer = HttpApiBuilder.group(
  InternalApi,
  "trustedRefs",
  Effect.fn(function*(handlers) {
    const secrets = yield* Secrets
    const grant = Effect.map(CurrentPrincipal, ({ grantId }) => grantId)

    return handlers.handleAll({
      listTrustedRefs: Effect.fnUntraced(function*() {
        return { data: yield* secrets.trustedRefs(yield* grant, null) }
      }),
      trustRef: Effect.fnUntraced(function*({ payload }) {
        return yield* secrets.trustRef({ grantId: yield* grant, ...payload })
      }),
      distrustRef: Effect.fnUntraced(function*({ query }) {
        yield* secrets.distrustRef({ grantId: yield* grant, ...query })
      })
    })
  })
)
