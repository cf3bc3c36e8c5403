/** Credits of organizations: `credit_spending`, `credit_balances`, `credit_charges`. */
import type { Account } from "@slipway/domain/models/rules/Budget"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { decodePurse, PURSE_COLUMNS, type PurseRow } from "../rows/SpendingRows.ts"

/** The purse of the grant's organization, its account locked; the account is made when it is missing. */
export const lockPurse = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, grantId: string) {
  for (;;) {
    const [row] = yield* sql`
          SELECT ${sql.literal(PURSE_COLUMNS)} FROM grants o JOIN credit_spending p ON p.organization_id = o.organization_id
          LEFT JOIN credit_balances b ON b.organization_id = o.organization_id
          WHERE o.id = ${grantId} FOR UPDATE OF p`
    if (row !== undefined) return decodePurse(row)
    yield* sql`
          INSERT INTO credit_spending (organization_id) VALUES ((SELECT organization_id FROM grants WHERE id = ${grantId}))
          ON CONFLICT DO NOTHING`
  }
})

/** The same without a lock; no row: there is no such grant. */
export const selectPurse = (reads: SqlClient.SqlClient, grantId: string) =>
  reads`
            SELECT ${reads.literal(PURSE_COLUMNS)} FROM grants o LEFT JOIN credit_spending p ON p.organization_id = o.organization_id
            LEFT JOIN credit_balances b ON b.organization_id = o.organization_id
            WHERE o.id = ${grantId}`

export const savePurse = (sql: SqlClient.SqlClient, { organizationId }: PurseRow, { reserved, spent, wanted }: Account) =>
  sql`
      UPDATE credit_spending SET spent = ${spent}, reserved = ${reserved}, wanted = ${wanted} WHERE organization_id = ${organizationId}`

/** The credits that a call cost, and the new sum of its sandbox. */
export const insertCharge = Effect.fnUntraced(
  function*(sql: SqlClient.SqlClient, organizationId: string, call: { readonly id: string; readonly sandboxId: string }, micros: {
    readonly ofCall: number
    readonly ofSandbox: number
  }) {
    yield* sql`UPDATE sandbox_spending SET micros = ${micros.ofSandbox} WHERE sandbox_id = ${call.sandboxId}`
    yield* sql`
        INSERT INTO credit_charges (call_id, organization_id, sandbox_id, micros)
        VALUES (${call.id}, ${organizationId}, ${call.sandboxId}, ${micros.ofCall})`
  }
)
