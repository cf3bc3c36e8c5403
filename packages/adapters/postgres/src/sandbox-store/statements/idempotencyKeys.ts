/** Keys of requests that may be repeated: `idempotency_keys`, by its primary key of grant, route and key. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type KeyedRequest, RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

/** `route` of the keys of POST /sandboxes, and of POST /sandboxes/{id}/fork. */
export const creationRoute = (forkOf: SandboxId | null) => forkOf === null ? "sandboxes" : `sandboxes/${forkOf}/fork`
/** `route` of the keys of POST /sandboxes/{id}/messages. */
export const messagesRoute = (id: SandboxId) => `sandboxes/${id}/messages`

/** Binds a key that is free or expired. Waits for another transaction that is binding it. */
export const bindKey = (sql: SqlClient.SqlClient, binding: {
  readonly grantId: string
  readonly route: string
  readonly keyed: KeyedRequest
  readonly id: SandboxId
  readonly commandId: string | null
}) =>
  sql`
      INSERT INTO idempotency_keys AS known (grant_id, route, key, fingerprint, sandbox_id, command_id)
      VALUES (${binding.grantId}, ${binding.route}, ${binding.keyed.key}, ${binding.keyed.fingerprint}, ${binding.id}, ${binding.commandId})
      ON CONFLICT (grant_id, route, key) DO UPDATE SET
        fingerprint = excluded.fingerprint, sandbox_id = excluded.sandbox_id, command_id = excluded.command_id, created_at = now()
      WHERE known.created_at < now() - make_interval(days => ${RETENTION_DAYS})`

/** The sandbox and the command that a key is bound to, unless it expired. */
export const boundTo = (sql: SqlClient.SqlClient) =>
  SqlSchema.findOneOption({
    Request: Schema.Struct({ grantId: Schema.String, route: Schema.String, key: Schema.String }),
    Result: Schema.Struct({ fingerprint: Schema.String, id: SandboxId, commandId: Schema.NullOr(Schema.String) }),
    execute: ({ grantId, key, route }) =>
      sql`
        SELECT fingerprint, sandbox_id AS id, command_id AS "commandId" FROM idempotency_keys
        WHERE grant_id = ${grantId} AND route = ${route} AND key = ${key}
          AND created_at >= now() - make_interval(days => ${RETENTION_DAYS})`
  })
