/** `ModelProviderStore` on Postgres. Keys are stored encrypted, each for its provider alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { ModelProviderStore, ProviderNotFound, told } from "@slipway/domain/models/ports/ModelProviderStore"
import { decide } from "@slipway/domain/models/rules/ModelProviders"
import type { ModelProvider, ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import { clearDefault, deleteProvider, lockProviders, type Row, saveProvider, selectProviders } from "./statements.ts"

/** The purpose that a key is encrypted for. With the address, so that no change of the row sends the key elsewhere. */
export const aboutOf = ({ baseUrl, provider }: { readonly baseUrl: string | null; readonly provider: string }): string =>
  `model_provider/${provider}/${baseUrl ?? ""}`

const recordOf = ({ sealed, ...row }: Row): ModelProvider => ({ ...row, hasKey: sealed !== null })

export const layer = Layer.effect(
  ModelProviderStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const key = Effect.catchTag(
      (yield* SecretsKey).given,
      "SecretsKeyUnusable",
      ({ message }) => Effect.fail(new SecretsUnusable({ problem: message }))
    )
    return ModelProviderStore.of({
      set: Effect.fn("ModelProviderStore.set")(
        function*(change, at) {
          const { provider } = change
          yield* lockProviders(sql)
          const before = (yield* selectProviders(sql)).find((row) => row.provider === provider)
          const record = yield* Effect.fromResult(decide(before === undefined ? null : recordOf(before), change, at))
          const kept = before?.sealed ?? null
          const sealed = change.key !== "keep"
            ? (yield* key).seal(change.key, aboutOf(change))
            : kept === null
            ? null
            : Redacted.value(kept)
          if (record.isDefault) yield* clearDefault(sql)
          yield* saveProvider(sql, { ...record, sealed })
          yield* audit.append([told("model_provider.set", provider, at)])
          return record
        },
        sql.withTransaction,
        guard
      ),
      list: guard(Effect.map(selectProviders(sql), (rows) => rows.map(recordOf))),
      remove: Effect.fn("ModelProviderStore.remove")(
        function*(provider, at) {
          yield* lockProviders(sql)
          if ((yield* deleteProvider(sql, provider)).length === 0) return yield* new ProviderNotFound()
          yield* audit.append([told("model_provider.removed", provider, at)])
        },
        sql.withTransaction,
        guard
      ),
      keys: guard(Effect.gen(function*() {
        const keys = new Map<ProviderName, Redacted.Redacted>()
        for (const row of yield* selectProviders(sql)) {
          const { provider, sealed } = row
          if (sealed === null) continue
          const value = (yield* key).open(sealed, aboutOf(row))
          if (value === null) {
            return yield* new SecretsUnusable({
              problem: `The stored key of the provider ${provider} cannot be decrypted: it was changed, or encrypted with a key that the ` +
                "key file no longer has. Give the file that key again, or set the provider's key again."
            })
          }
          keys.set(provider, value)
        }
        return keys
      }))
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
