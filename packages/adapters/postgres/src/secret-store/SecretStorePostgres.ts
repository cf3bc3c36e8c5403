/** `SecretStore` on Postgres. Values are stored encrypted, each for its grant, repository and name alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SecretStore, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { guard } from "../sql/SqlFailure.ts"
import { remove, reveal, set, type Store } from "./secrets.ts"
import { SecretsKey } from "./SecretsKey.ts"
import { countOthers, saveSecret, selectSecrets } from "./statements/secrets.ts"
import { selectRefs } from "./statements/trustedRefs.ts"
import { distrustRef, trustRef } from "./trustedRefs.ts"

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
