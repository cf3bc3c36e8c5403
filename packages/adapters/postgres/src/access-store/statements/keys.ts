/** Keys: `api_keys`. */
import type { KeyRecord } from "@slipway/domain/access/ports/AccessStore"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"
import { Changed, KEY_COLUMNS, KeyRow } from "../rows/AccessRows.ts"

/** Mints of one user wait for each other, so each counts those before it. */
export const lockUser = (sql: SqlClient.SqlClient, key: { readonly userId: string }) =>
  sql`SELECT 1 FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE`

/** Whether the user has as many good keys as may be. */
export const selectFull = (
  sql: SqlClient.SqlClient,
  key: { readonly userId: string; readonly createdAt: DateTime.Utc },
  most: number | null
) =>
  sql<{ readonly full: boolean }>`
          SELECT count(*) >= ${most}::integer AS full
          FROM api_keys k JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
          WHERE k.user_id = ${key.userId} AND k.revoked_at IS NULL
            AND (k.expires_at IS NULL OR k.expires_at > ${DateTime.formatIso(key.createdAt)}::timestamptz)`

export const insertKey = (sql: SqlClient.SqlClient, key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">, digest: string) =>
  sql`
          INSERT INTO api_keys (id, grant_id, user_id, label, prefix, last4, scopes, created_at, expires_at, digest)
          VALUES (${key.id}, ${key.grantId}, ${key.userId}, ${key.label}, ${key.prefix}, ${key.last4},
            ${textArray(key.scopes)}::text[], ${DateTime.formatIso(key.createdAt)},
            ${key.expiresAt === null ? null : DateTime.formatIso(key.expiresAt)}, ${digest})`

/** `grantId`: `null` for all. */
export const selectKeys = (sql: SqlClient.SqlClient, grantId: string | null) => {
  const keyColumns = sql.literal(KEY_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: KeyRow,
    execute: () =>
      sql`
            SELECT ${keyColumns} FROM api_keys k ${grantId === null ? sql`` : sql`WHERE grant_id = ${grantId}`}
            ORDER BY created_at DESC, id DESC`
  })(undefined)
}

/** Locks the key first, to tell whether it was good. */
export const updateRevoked = (sql: SqlClient.SqlClient, id: string, at: DateTime.Utc) => {
  const keyColumns = sql.literal(KEY_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Schema.Struct({ ...KeyRow.fields, ...Changed }),
    execute: (key) =>
      sql`
            UPDATE api_keys k SET revoked_at = coalesce(k.revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            FROM (SELECT id, revoked_at IS NULL AS good FROM api_keys WHERE id::text = ${key} FOR UPDATE) before
            WHERE k.id = before.id RETURNING ${keyColumns}, before.good AS changed`
  })(id)
}
