/** Encryption of stored secrets when a process starts. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import { opened, secretsText } from "./rows/Secrets.ts"
import { selectPlain, updateSecrets } from "./statements/secrets.ts"

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
