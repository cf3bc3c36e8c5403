/** Translates requests about settings of repositories into domain calls. */
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { RepositorySettings, type SettingsRefused } from "@slipway/domain/source/ports/RepositorySettings"
import { DateTime, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

export const layer = HttpApiBuilder.group(
  InternalApi,
  "repositorySettings",
  Effect.fn(function*(handlers) {
    const settings = yield* RepositorySettings
    const grant = Effect.map(CurrentPrincipal, ({ grantId }) => grantId)

    return handlers.handleAll({
      listRepositorySettings: Effect.fnUntraced(function*() {
        return { data: yield* settings.list(yield* grant) }
      }),
      setRepositorySettings: Effect.fnUntraced(function*({ payload, query: { repo } }) {
        const grantId = yield* grant
        yield* settings.set({ grantId, repo }, payload, yield* DateTime.now).pipe(
          Effect.catchTag(
            "SettingsRefused",
            (error): Effect.Effect<never, GrantNotFound | SettingsRefused> =>
              Effect.fail(error.reason === "grant" ? new GrantNotFound({ grant: grantId }) : error)
          )
        )
        return payload
      })
    })
  })
)
