/** Setting, removing and reading secrets. Each change is one transaction with its entry in the audit log. */
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import {
  ALL_REPOSITORIES,
  MAX_SECRETS,
  MAX_SECRETS_OF_GRANT,
  MAX_VALUES_BYTES,
  type SecretKey,
  SecretNotFound,
  SecretsMissing,
  type SecretsOf,
  SecretsUnusable,
  told,
  TooManySecrets
} from "@slipway/domain/environment/ports/SecretStore"
import { utf8Length } from "@slipway/domain/text/Utf8"
import { DateTime, Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { aboutOf } from "./rows/SecretRows.ts"
import type { Key } from "./SecretsKey.ts"
import { type countOthers, deleteSecret, lockGrant, lockSecrets, type saveSecret, selectValues } from "./statements/secrets.ts"

/** Dependencies of the functions of this store. */
export interface Store {
  readonly sql: SqlClient.SqlClient
  readonly audit: AuditLog["Service"]
  readonly key: Effect.Effect<Key, SecretsUnusable>
  readonly countOthers: ReturnType<typeof countOthers>
  readonly saveSecret: ReturnType<typeof saveSecret>
}

/** Fails if the grant is revoked; holds it until the transaction ends. */
export const requireGrant = Effect.fnUntraced(function*({ sql }: Store, grantId: string) {
  if ((yield* lockGrant(sql, grantId)).length === 0) return yield* new GrantNotFound({ grant: grantId })
  yield* lockSecrets(sql, grantId)
})

export const set = Effect.fn("SecretStore.set")(
  function*(store: Store, secret: SecretKey, value: Redacted.Redacted, at: DateTime.Utc) {
    const { audit, countOthers, key, saveSecret } = store
    const { grantId, name, repo } = secret
    yield* requireGrant(store, grantId)
    const bytes = utf8Length(Redacted.value(value))
    const held = yield* countOthers(secret)
    if (held.count >= MAX_SECRETS || held.bytes + bytes > MAX_VALUES_BYTES || held.ofGrant >= MAX_SECRETS_OF_GRANT) {
      return yield* new TooManySecrets()
    }
    const sealed = (yield* key).seal(value, aboutOf(secret))
    const record = yield* saveSecret({ grantId, repo, name, sealed, bytes, at: DateTime.formatIso(at) })
    yield* audit.append([told("secret.set", secret, at)])
    return record
  },
  Effect.catchTag("NoSuchElementError", Effect.die),
  inTransaction
)

export const remove = Effect.fn("SecretStore.remove")(
  function*({ audit, sql }: Store, secret: SecretKey, at: DateTime.Utc) {
    if ((yield* deleteSecret(sql, secret)).length === 0) return yield* new SecretNotFound()
    yield* audit.append([told("secret.removed", secret, at)])
  },
  inTransaction
)

/** The plain values. Needs the key only when there is a value. */
export const reveal = Effect.fn("SecretStore.reveal")(
  function*({ key, sql }: Store, { grantId, repo }: SecretsOf, names: ReadonlyArray<string>) {
    const rows = yield* selectValues(sql, grantId, repo, names)
    const missing = names.filter((name) => !rows.some((row) => row.name === name))
    if (missing.length > 0) return yield* new SecretsMissing({ repo, names: missing })
    const values = new Map<string, Redacted.Redacted>()
    if (rows.length === 0) return values
    const opening = yield* key
    for (const { name, repo: of, sealed } of rows) {
      const value = opening.open(sealed, aboutOf({ grantId, repo: of, name }))
      if (value === null) {
        const place = of === ALL_REPOSITORIES ? "all repositories" : of
        return yield* new SecretsUnusable({
          problem: `The stored secret ${name} of ${place} cannot be decrypted: it was changed, or encrypted with a key that the key file ` +
            "no longer has. Give the file that key again, or set the secret again."
        })
      }
      values.set(name, value)
    }
    return values
  },
  guard
)
