/** Encryption of stored secrets when a process starts. */
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type Key, SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import { aboutOf, opened, secretsText } from "./rows/Secrets.ts"
import { selectAll, selectPlain, updateSecrets } from "./statements/secrets.ts"

const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self))

/** Encrypts what earlier versions stored in plain text. Safe to do twice, and in many processes at once. */
export const sealEarlier = Effect.fn("WebhookStorePostgres.sealEarlier")(
  function*() {
    const sql = yield* SqlClient.SqlClient
    const plain = yield* selectPlain(sql)
    if (plain.length === 0) return
    const key = yield* (yield* SecretsKey).get
    for (const { id, secrets } of plain) yield* updateSecrets(sql, id, secretsText(opened(secrets, id, key), id, key))
  },
  transaction,
  guard
)

/**
 * Encrypts with the first key what another key encrypted. What no key opens stays as it is. Safe to do twice, and in many processes at
 * once.
 */
export const reseal = Effect.fn("WebhookStorePostgres.reseal")(
  function*(key: Key) {
    const sql = yield* SqlClient.SqlClient
    for (const { id, secrets } of yield* selectAll(sql)) {
      const about = aboutOf(id)
      if (secrets.every(({ value }) => key.isCurrent(value, about) || key.open(value, about) === null)) continue
      const anew = secrets.map(({ until, value }) => {
        const secret = key.open(value, about)
        return {
          value: secret === null ? Redacted.value(value) : key.seal(secret, about),
          until: until === null ? null : DateTime.formatIso(until)
        }
      })
      yield* updateSecrets(sql, id, JSON.stringify(anew))
    }
  },
  transaction,
  guard
)
