/** Port: the service's accounts with providers of models. Keys are stored so that only the service can read them. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { SecretsUnusable } from "../../environment/ports/SecretStore.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { IncompleteProvider, ProviderChange } from "../rules/ModelProviders.ts"
import type { ModelProvider, ProviderName } from "../schema/ModelProvider.ts"

/** The topic of hints after a change. */
export const MODELS = "models"

/** Nothing is stored for the provider. */
export class ProviderNotFound extends Schema.TaggedError<ProviderNotFound>()("ProviderNotFound", {}) {
  override get message() {
    return "Nothing is stored for this provider."
  }
}

/** The security event for a change. It never has the key. */
export const told = (action: Extract<Action, `model_provider.${string}`>, provider: ProviderName, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { provider }
})

/** Checked by `ModelProviderStoreContract`. Changes are in the audit log. */
export class ModelProviderStore extends Context.Service<ModelProviderStore, {
  /** Stores what `decide` makes of the change. A new default takes the place of the one before. */
  set(
    change: ProviderChange,
    at: DateTime.Utc
  ): Effect.Effect<ModelProvider, IncompleteProvider | SecretsUnusable | StoreUnavailable>
  /** In order of name. */
  readonly list: Effect.Effect<ReadonlyArray<ModelProvider>, StoreUnavailable>
  /** Deletes the key and the settings. */
  remove(provider: ProviderName, at: DateTime.Utc): Effect.Effect<void, ProviderNotFound | StoreUnavailable>
  /** The stored keys, for the gateway only. */
  readonly keys: Effect.Effect<ReadonlyMap<ProviderName, Redacted.Redacted>, SecretsUnusable | StoreUnavailable>
}>()("@slipway/domain/ModelProviderStore") {
}
