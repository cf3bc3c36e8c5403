/** Translates requests about models and their providers into domain calls. */
import type { ModelProviderResource } from "@slipway/api/groups/ModelsApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { Unavailable } from "@slipway/api/shared/Errors"
import type { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import type { ModelProvider } from "@slipway/domain/models/schema/ModelProvider"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { respond } from "../../server/reply/Respond.ts"

const toResource = ({ isDefault, ...settings }: ModelProvider): ModelProviderResource => ({ ...settings, default: isDefault })

/** Only an administrator can help, which takes a while. */
const RETRY_SECONDS = "60"

/** The problem names files of the service, so only its log has it. */
const keyNotStored = ({ problem }: SecretsUnusable) =>
  Effect.as(
    Effect.logError("the key of a provider cannot be stored", { problem }),
    respond(Unavailable.make(
      "Nothing was saved: the service has no usable key to encrypt with. Its log says what an administrator can do.",
      { "retry-after": RETRY_SECONDS }
    ))
  )

export const layer = HttpApiBuilder.group(
  InternalApi,
  "models",
  Effect.fn(function*(handlers) {
    const providers = yield* ModelProviders
    const catalogue = yield* ModelCatalogue

    return handlers.handleAll({
      listModels: () =>
        Effect.sync(() => {
          const { default: chosen, models, setup, unusable = [] } = catalogue
          const found = [
            ...models.map(({ id }) => ({ id, problems: [] })),
            ...unusable.map(({ id, problems, reason }) => ({ id, problems: problems ?? [reason] }))
          ]
          return {
            data: found.map(({ id, problems }) => ({ id, default: id === chosen, usable: problems.length === 0, problems })),
            isolation: setup?.isolation ?? null
          }
        }),
      listModelProviders: Effect.fnUntraced(function*() {
        return { data: (yield* providers.list).map(toResource) }
      }),
      setModelProvider: Effect.fnUntraced(function*({ params: { provider }, payload: { default: isDefault, key, ...settings } }) {
        return toResource(
          yield* providers.set({ provider, isDefault, ...settings, key: key === undefined ? "keep" : Redacted.make(key) })
        )
      }, Effect.catchTag("SecretsUnusable", keyNotStored)),
      removeModelProvider: Effect.fnUntraced(function*({ params: { provider } }) {
        yield* providers.remove(provider)
      })
    })
  })
)
