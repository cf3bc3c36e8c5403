/** Use cases of the service's owners: its accounts with providers of models. Keys are never returned. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { SecretsUnusable } from "../../environment/ports/SecretStore.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { MODELS, ModelProviderStore, ProviderNotFound } from "../ports/ModelProviderStore.ts"
import type { IncompleteProvider, ProviderChange } from "../rules/ModelProviders.ts"
import { type ModelProvider, ProviderAddress, ProviderKey, ProviderModel, ProviderName } from "../schema/ModelProvider.ts"

const read = reader(
  Schema.Struct({
    provider: ProviderName,
    key: Schema.optionalKey(ProviderKey),
    baseUrl: Schema.NullOr(ProviderAddress),
    model: Schema.NullOr(ProviderModel)
  }),
  "provider"
)

/** The settings of providers. The caller has authorized the request and set `Acting`. Every process applies a change within seconds. */
export class ModelProviders extends Context.Service<ModelProviders, {
  set(
    change: Omit<ProviderChange, "provider"> & { readonly provider: string }
  ): Effect.Effect<ModelProvider, InvalidRequest | IncompleteProvider | SecretsUnusable | StoreUnavailable>
  /** In order of name. */
  readonly list: Effect.Effect<ReadonlyArray<ModelProvider>, StoreUnavailable>
  /** Deletes the key and the settings. */
  remove(provider: string): Effect.Effect<void, ProviderNotFound | StoreUnavailable>
}>()("@slipway/domain/ModelProviders") {
  static readonly layer = Layer.effect(
    ModelProviders,
    Effect.gen(function*() {
      const store = yield* ModelProviderStore
      const hints = yield* Hints
      return ModelProviders.of({
        set: Effect.fn("ModelProviders.set")(function*({ isDefault, key, ...given }) {
          const { baseUrl, model, provider } = yield* Effect.fromResult(
            read(key === "keep" ? given : { ...given, key: Redacted.value(key) })
          )
          const stored = yield* store.set({ provider, key, baseUrl, model, isDefault }, yield* DateTime.now)
          yield* hints.publish([MODELS])
          return stored
        }),
        list: store.list,
        remove: Effect.fn("ModelProviders.remove")(function*(provider) {
          if (!Schema.is(ProviderName)(provider)) return yield* new ProviderNotFound()
          yield* store.remove(provider, yield* DateTime.now)
          yield* hints.publish([MODELS])
        })
      })
    })
  )
}
