import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Secrets } from "../rows/Secrets.ts"

const SealedRow = Schema.Struct({ id: Schema.String, secrets: Secrets })

/** Endpoints with a secret in plain text, locked. Few or none: it reads the whole table, once per start. */
export const selectPlain = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: SealedRow,
    execute: () => sql`SELECT id, secrets FROM webhook_endpoints WHERE secrets::text LIKE '%"whsec\\_%' FOR NO KEY UPDATE`
  })(undefined)

/** Stored secrets as they are: those of one endpoint may not decode. */
export const secretsOf = (sql: SqlClient.SqlClient, id: string) =>
  sql<{ readonly secrets: unknown }>`SELECT secrets FROM webhook_endpoints WHERE id = ${id}`

export const updateSecrets = (sql: SqlClient.SqlClient, id: string, secrets: string) =>
  sql`UPDATE webhook_endpoints SET secrets = ${secrets}::jsonb WHERE id = ${id}`
