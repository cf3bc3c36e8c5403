/** Credits of an organization. */
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { BalanceRow, ChargeRow, MovementRow } from "../rows/PartnerRows.ts"

export const movementRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: MovementRow,
    execute: (organizationId) =>
      sql`
        SELECT claim_id AS "claimId", credits, at FROM credit_ledger
        WHERE organization_id = ${organizationId} ORDER BY at DESC, claim_id DESC`
  })

/** Summed by sandbox. */
export const chargeRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: ChargeRow,
    execute: (organizationId) =>
      sql`
        SELECT sandbox_id AS "sandboxId", least(sum(micros), ${Number.MAX_SAFE_INTEGER})::bigint AS micros, max(at) AS at
        FROM credit_charges WHERE organization_id = ${organizationId} GROUP BY sandbox_id ORDER BY max(at) DESC, sandbox_id DESC`
  })

export const balanceRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: BalanceRow,
    execute: (organizationId) =>
      sql`
        SELECT coalesce(b.credits, 0) AS credits, coalesce(s.spent, 0) AS spent FROM (SELECT ${organizationId}::uuid AS id) o
        LEFT JOIN credit_balances b ON b.organization_id = o.id LEFT JOIN credit_spending s ON s.organization_id = o.id`
  })
