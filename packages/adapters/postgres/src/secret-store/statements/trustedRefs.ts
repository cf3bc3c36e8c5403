/** Refs whose setup a grant trusts: `trusted_refs`. */
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { REF_COLUMNS, RefRecord } from "../rows/SecretRows.ts"

/** `repo`: `null` for all. */
export const selectRefs = (sql: SqlClient.SqlClient, grantId: string, repo: string | null) => {
  const refColumns = sql.literal(REF_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: RefRecord,
    execute: () =>
      sql`
    SELECT ${refColumns} FROM trusted_refs r
    WHERE grant_id = ${grantId} ${repo === null ? sql`` : sql`AND lower(repo) = lower(${repo})`}
    ORDER BY lower(repo) COLLATE "C", ref COLLATE "C"`
  })(undefined)
}

export const insertRef = (sql: SqlClient.SqlClient, grantId: string, repo: string, ref: string, at: DateTime.Utc) =>
  sql`INSERT INTO trusted_refs ${sql.insert({ grant_id: grantId, repo, ref, listed_at: DateTime.formatIso(at) })}`

/** A row if it was there. */
export const deleteRef = (sql: SqlClient.SqlClient, of: { readonly grantId: string; readonly repo: string }, ref: string) =>
  sql`
          DELETE FROM trusted_refs WHERE grant_id = ${of.grantId} AND lower(repo) = lower(${of.repo}) AND ref = ${ref} RETURNING 1`
