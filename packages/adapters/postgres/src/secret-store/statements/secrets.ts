/** Secrets: `repository_secrets`, by the unique index over grant, lower-case repository and name. */
import { ALL_REPOSITORIES, type SecretKey } from "@slipway/domain/environment/ports/SecretStore"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"
import { textArray } from "../../sql/TextArray.ts"
import { COLUMNS, Record, Sealed } from "../rows/SecretRows.ts"

/** A row if the grant is in use. The lock makes a revocation of the grant wait for this transaction, and delete what it stores. */
export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT FROM grants WHERE id = ${grantId} AND revoked_at IS NULL FOR KEY SHARE`

/** Changes of one grant's secrets wait for each other, so each counts those before it. */
export const lockSecrets = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT pg_advisory_xact_lock(hashtextextended(${`secrets/${grantId}`}, 0))`

/** Numbers and bytes of the grant's other secrets. */
export const countOthers = (sql: SqlClient.SqlClient) =>
  SqlSchema.findOne({
    Request: Schema.Struct({ grantId: Schema.String, repo: Schema.String, name: Schema.String }),
    Result: Schema.Struct({ ofGrant: Int8, count: Int8, bytes: Int8 }),
    execute: ({ grantId, name, repo }) =>
      sql`
        SELECT count(*) AS "ofGrant", count(*) FILTER (WHERE lower(repo) = lower(${repo})) AS count,
          coalesce(sum(bytes) FILTER (WHERE lower(repo) = lower(${repo})), 0)::bigint AS bytes
        FROM repository_secrets WHERE grant_id = ${grantId} AND NOT (lower(repo) = lower(${repo}) AND name = ${name})`
  })

export const saveSecret = (sql: SqlClient.SqlClient) => {
  const columns = sql.literal(COLUMNS)
  return SqlSchema.findOne({
    Request: Schema.Struct({
      grantId: Schema.String,
      repo: Schema.String,
      name: Schema.String,
      sealed: Schema.String,
      bytes: Schema.Int,
      at: Schema.String
    }),
    Result: Record,
    execute: ({ at, bytes, grantId, name, repo, sealed }) =>
      sql`
        INSERT INTO repository_secrets AS s (grant_id, repo, name, sealed, bytes, created_at, set_at)
        VALUES (${grantId}, ${repo}, ${name}, ${sealed}, ${bytes}, ${at}, ${at})
        ON CONFLICT (grant_id, lower(repo), name) DO UPDATE
          SET repo = excluded.repo, sealed = excluded.sealed, bytes = excluded.bytes, set_at = excluded.set_at
        RETURNING ${columns}`
  })
}

/** `repo`: `null` for all. */
export const selectSecrets = (sql: SqlClient.SqlClient, grantId: string, repo: string | null) => {
  const columns = sql.literal(COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: Record,
    execute: () =>
      sql`
            SELECT ${columns} FROM repository_secrets s
            WHERE grant_id = ${grantId} ${repo === null ? sql`` : sql`AND lower(repo) = lower(${repo})`}
            ORDER BY lower(repo) COLLATE "C", name COLLATE "C"`
  })(undefined)
}

/** A row if it was there. */
export const deleteSecret = (sql: SqlClient.SqlClient, { grantId, name, repo }: SecretKey) =>
  sql`
          DELETE FROM repository_secrets WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name} RETURNING 1`

/** One value for each name: that of the repository, else that of all repositories. */
export const selectValues = (sql: SqlClient.SqlClient, grantId: string, repo: string, names: ReadonlyArray<string>) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ name: Schema.String, repo: Schema.String, sealed: Sealed }),
    execute: () =>
      sql`
            SELECT DISTINCT ON (name) name, repo, sealed FROM repository_secrets
            WHERE grant_id = ${grantId} AND lower(repo) IN (lower(${repo}), ${ALL_REPOSITORIES}) AND name = ANY(${textArray(names)}::text[])
            ORDER BY name, repo = ${ALL_REPOSITORIES}`
  })(undefined)
