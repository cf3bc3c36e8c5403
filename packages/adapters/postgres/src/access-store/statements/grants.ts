/** Grants: `grants`. A partial index makes names of grants in use unique. */
import type { Grant } from "@slipway/domain/access/ports/AccessStore"
import type { BranchRule } from "@slipway/domain/source/schema/BranchRules"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Changed, GRANT_COLUMNS, GrantRow } from "../rows/AccessRows.ts"

export const grantNamed = (sql: SqlClient.SqlClient) => {
  const grantColumns = sql.literal(GRANT_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: GrantRow,
    execute: (name) => sql`SELECT ${grantColumns} FROM grants g WHERE name = ${name} AND revoked_at IS NULL`
  })
}

/** No row: a grant in use has this name. */
export const insertGrant = (
  sql: SqlClient.SqlClient,
  { createdAt, id, name, organizationId }: Pick<Grant, "createdAt" | "id" | "name" | "organizationId">
) =>
  sql`
            INSERT INTO grants (id, name, organization_id, created_at)
            VALUES (${id}, ${name}, ${organizationId}, ${DateTime.formatIso(createdAt)})
            ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING 1`

export const selectGrants = (sql: SqlClient.SqlClient) => {
  const grantColumns = sql.literal(GRANT_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: GrantRow,
    execute: () => sql`SELECT ${grantColumns} FROM grants g ORDER BY created_at DESC, id DESC`
  })(undefined)
}

/** By id, or by the name of a grant in use. Locks it first, to tell whether it was in use. */
export const updateRevoked = (sql: SqlClient.SqlClient, idOrName: string, at: DateTime.Utc) => {
  const grantColumns = sql.literal(GRANT_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Schema.Struct({ ...GrantRow.fields, ...Changed }),
    execute: (grant) =>
      sql`
            UPDATE grants g SET revoked_at = coalesce(g.revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            FROM (
              SELECT id, revoked_at IS NULL AS good FROM grants
              WHERE id::text = ${grant} OR name = ${grant} AND revoked_at IS NULL FOR UPDATE
            ) before
            WHERE g.id = before.id RETURNING ${grantColumns}, before.good AS changed`
  })(idOrName)
}

/** By id or name of a grant in use. */
export const updateRetention = (sql: SqlClient.SqlClient, idOrName: string, days: number | null) => {
  const grantColumns = sql.literal(GRANT_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: GrantRow,
    execute: (grant) =>
      sql`
            UPDATE grants g SET retention_days = ${days}
            WHERE (g.id::text = ${grant} OR g.name = ${grant}) AND g.revoked_at IS NULL RETURNING ${grantColumns}`
  })(idOrName)
}

/** A grant in use. */
export interface BranchRulesRow {
  /** `null`: never set. */
  readonly branchRules: ReadonlyArray<BranchRule> | null
}

export const selectBranchRules = (sql: SqlClient.SqlClient, grantId: string) =>
  sql<BranchRulesRow>`SELECT branch_rules AS "branchRules" FROM grants WHERE id::text = ${grantId} AND revoked_at IS NULL`

export const selectAllBranchRules = (sql: SqlClient.SqlClient) =>
  sql<BranchRulesRow>`SELECT DISTINCT branch_rules AS "branchRules" FROM grants WHERE revoked_at IS NULL`

/** Answers the rules before. No row: there is no such grant in use. */
export const updateBranchRules = (sql: SqlClient.SqlClient, idOrName: string, rules: ReadonlyArray<BranchRule>) =>
  sql<{ readonly id: string; readonly before: ReadonlyArray<BranchRule> | null }>`
            UPDATE grants g SET branch_rules = ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(rules)}::jsonb))
            FROM (
              SELECT id, branch_rules FROM grants
              WHERE (id::text = ${idOrName} OR name = ${idOrName}) AND revoked_at IS NULL
              ORDER BY id::text = ${idOrName} DESC LIMIT 1 FOR UPDATE
            ) before
            WHERE g.id = before.id RETURNING g.id, before.branch_rules AS before`

export const deleteSecrets = (sql: SqlClient.SqlClient, grant: { readonly id: string }) =>
  sql`DELETE FROM repository_secrets WHERE grant_id = ${grant.id}`

export const deleteMcpServers = (sql: SqlClient.SqlClient, grant: { readonly id: string }) =>
  sql`DELETE FROM mcp_servers WHERE grant_id = ${grant.id}`

export const deleteTrustedRefs = (sql: SqlClient.SqlClient, grant: { readonly id: string }) =>
  sql`DELETE FROM trusted_refs WHERE grant_id = ${grant.id}`
