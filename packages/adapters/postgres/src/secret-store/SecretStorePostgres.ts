/** `SecretStore` on Postgres. Values are stored encrypted, each for its grant, repository and name alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SecretStore, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { guard } from "../sql/SqlFailure.ts"
import { aboutOf } from "./rows/SecretRows.ts"
import { remove, reveal, set, type Store } from "./secrets.ts"
import { type Key, SecretsKey } from "./SecretsKey.ts"
import { countOthers, saveSecret, selectAll, selectSecrets, updateSealed } from "./statements/secrets.ts"
import { selectRefs } from "./statements/trustedRefs.ts"
import { distrustRef, trustRef } from "./trustedRefs.ts"

/**
 * Encrypts with the first key what another key encrypted. What no key opens stays as it is. Safe to do twice, and in many processes at
 * once.
 */
export const reseal = Effect.fn("SecretStorePostgres.reseal")(
  function*(key: Key) {
    const sql = yield* SqlClient.SqlClient
    for (const { grantId, name, repo, sealed } of yield* selectAll(sql)) {
      const about = aboutOf({ grantId, repo, name })
      if (key.isCurrent(sealed, about)) continue
      const value = key.open(sealed, about)
      if (value === null) continue
      yield* updateSealed(sql, { grantId, repo, name }, key.seal(value, about))
    }
  },
  (self) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)),
  guard
)

export const layer = Layer.effect(
  SecretStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store: Store = {
      sql,
      audit: yield* AuditLog,
      key: Effect.catchTag(
        (yield* SecretsKey).given,
        "SecretsKeyUnusable",
        ({ message }) => Effect.fail(new SecretsUnusable({ problem: message }))
      ),
      countOthers: countOthers(sql),
      saveSecret: saveSecret(sql)
    }
    return SecretStore.of({
      set: (secret, value, at) => set(store, secret, value, at),
      list: Effect.fn("SecretStore.list")((grantId: string, repo) => selectSecrets(sql, grantId, repo), guard),
      remove: (secret, at) => remove(store, secret, at),
      reveal: (of, names) => reveal(store, of, names),
      trustRef: (of, ref, at) => trustRef(store, of, ref, at),
      trustedRefs: Effect.fn("SecretStore.trustedRefs")((grantId: string, repo) => selectRefs(sql, grantId, repo), guard),
      distrustRef: (of, ref, at) => distrustRef(store, of, ref, at)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
