/** Claims, touches, and what is recorded once per natural id. */
import type { Claimant, Touch } from "@slipway/domain/partner/rules/Attribution"
import { DateTime, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { At, ClaimRow, toClaim, TOUCH, TouchRow } from "../rows/PartnerRows.ts"

const iso = DateTime.formatIso

const claimRows = (sql: SqlClient.SqlClient, where: Statement.Fragment) =>
  Effect.map(
    SqlSchema.findAll({
      Request: Schema.Void,
      Result: ClaimRow,
      execute: () =>
        sql`
      SELECT id AS "claimId", grant_id AS "grantId", lead_id AS "leadId", variant, credit_amount AS "creditAmount",
        created_at AS "createdAt", recipient_id AS "recipientId", organization_id AS "organizationId", claimed_at AS "claimedAt"
      FROM credit_claims ${where}`
    })(undefined),
    (rows) => rows.map(toClaim)
  )

export const claimOf = (sql: SqlClient.SqlClient, id: string) => claimRows(sql, sql`WHERE id = ${id}`)

/** The same, locked until the transaction ends. */
export const claimLocked = (sql: SqlClient.SqlClient, claimId: string) => claimRows(sql, sql`WHERE id = ${claimId} FOR NO KEY UPDATE`)

/** Newest first. `grantId`: `null` for all. */
export const selectClaims = (sql: SqlClient.SqlClient, grantId: string | null) =>
  claimRows(sql, sql`${grantId === null ? sql`` : sql`WHERE grant_id = ${grantId}`} ORDER BY created_at DESC, id DESC`)

const touch = (sql: SqlClient.SqlClient, from: Statement.Fragment) =>
  Effect.map(
    SqlSchema.findAll({
      Request: Schema.Void,
      Result: TouchRow,
      execute: () => sql`SELECT ${sql.literal(TOUCH)} FROM ${from}`
    })(undefined),
    ([row = null]): Touch | null => row
  )

export const touchOfRecipient = (sql: SqlClient.SqlClient, { organizationId, recipientId }: Claimant) =>
  touch(
    sql,
    sql`
        recipient_touches t JOIN credit_claims c ON c.id = t.claim_id
        WHERE t.organization_id = ${organizationId} AND t.recipient_id = ${recipientId}`
  )
export const touchOfOrganization = (sql: SqlClient.SqlClient, id: string) =>
  touch(sql, sql`organization_touches t JOIN credit_claims c ON c.id = t.claim_id WHERE t.organization_id = ${id}`)

/** The time of the database, in milliseconds. */
export const selectTime = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: At,
    execute: () => sql`SELECT date_trunc('milliseconds', clock_timestamp()) AS at`
  })

/** Waits for every other fact about the organization. The time follows theirs. */
export const lockAttribution = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({ Request: Schema.String, Result: At, execute: (id) => sql`SELECT lock_attribution(${id}) AS at` })

/** No row: the id is taken, or the grant is unknown. Waits for another transaction that is inserting it. */
export const insertClaim = (
  sql: SqlClient.SqlClient,
  terms: {
    readonly claimId: string
    readonly grantId: string
    readonly leadId: string
    readonly variant: string
    readonly creditAmount: number
  },
  at: DateTime.Utc
) =>
  sql`
            INSERT INTO credit_claims (id, grant_id, lead_id, variant, credit_amount, created_at)
            SELECT ${terms.claimId}::uuid, id, ${terms.leadId}, ${terms.variant}, ${terms.creditAmount}::bigint, ${iso(at)}::timestamptz
            FROM grants WHERE id = ${terms.grantId}
            ON CONFLICT (id) DO NOTHING RETURNING 1`

/** The claim is the claimant's. */
export const updateClaimed = (sql: SqlClient.SqlClient, claimId: string, { organizationId, recipientId }: Claimant, at: DateTime.Utc) =>
  sql`
              UPDATE credit_claims SET recipient_id = ${recipientId}, organization_id = ${organizationId}, claimed_at = ${iso(at)}
              WHERE id = ${claimId}`
export const addCredits = (sql: SqlClient.SqlClient, organizationId: string, credits: number) =>
  sql`
              INSERT INTO credit_balances AS b (organization_id, credits) VALUES (${organizationId}, ${credits})
              ON CONFLICT (organization_id) DO UPDATE SET credits = least(b.credits + excluded.credits, ${Number.MAX_SAFE_INTEGER})`
export const insertMovement = (sql: SqlClient.SqlClient, claimId: string, organizationId: string, credits: number, at: DateTime.Utc) =>
  sql`
              INSERT INTO credit_ledger (claim_id, organization_id, credits, at)
              VALUES (${claimId}, ${organizationId}, ${credits}, ${iso(at)})`

export const insertRecipientTouch = (sql: SqlClient.SqlClient, { organizationId, recipientId }: Claimant, claimId: string) =>
  sql`
              INSERT INTO recipient_touches (organization_id, recipient_id, claim_id)
              VALUES (${organizationId}, ${recipientId}, ${claimId})`
export const insertOrganizationTouch = (sql: SqlClient.SqlClient, organizationId: string, claimId: string) =>
  sql`INSERT INTO organization_touches (organization_id, claim_id) VALUES (${organizationId}, ${claimId})`
