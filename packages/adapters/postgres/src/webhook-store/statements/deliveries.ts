/** The log of attempts, and redeliveries that somebody asked for. */
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { DeliveryRow } from "../rows/WebhookRows.ts"

const iso = DateTime.formatIso

/** Attempts of an endpoint, newest first, below a position; by the index over endpoint and position. */
export const selectDeliveries = (sql: SqlClient.SqlClient, id: string, before: number | null, limit: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: DeliveryRow,
    execute: () =>
      sql`
            SELECT position, event_id AS "eventId", sequence, attempt, manual, at, duration_ms AS "durationMillis", status,
              retry_after AS "retryAfter", body, trouble, unread, sandbox_id AS "sandboxId", type
            FROM webhook_deliveries WHERE endpoint_id = ${id} ${before === null ? sql`` : sql`AND position < ${before}`}
            ORDER BY position DESC LIMIT ${limit}`
  })(undefined)

export const insertDelivery = (sql: SqlClient.SqlClient, delivery: Parameters<SqlClient.SqlClient["insert"]>[0]) =>
  sql`INSERT INTO webhook_deliveries ${sql.insert(delivery)}`

/** The oldest attempts of the log, by the index over time. Rows that another process purges are skipped. */
export const purgeDeliveries = (sql: SqlClient.SqlClient, before: DateTime.Utc, limit: number) =>
  sql`
          DELETE FROM webhook_deliveries WHERE position IN (
            SELECT position FROM webhook_deliveries WHERE at < ${iso(before)} ORDER BY at LIMIT ${limit} FOR UPDATE SKIP LOCKED
          ) RETURNING 1`

/** A row if the grant's feed has this event. */
export const selectEvent = (sql: SqlClient.SqlClient, eventId: string, grantId: string) =>
  sql`SELECT FROM partner_events WHERE id = ${eventId} AND grant_id = ${grantId}`

/** A redelivery that waits already waits once. */
export const insertRedelivery = (sql: SqlClient.SqlClient, endpointId: string, eventId: string, at: DateTime.Utc) =>
  sql`
          INSERT INTO webhook_redeliveries (endpoint_id, event_id, asked_at)
          VALUES (${endpointId}, ${eventId}, ${iso(at)}) ON CONFLICT DO NOTHING`

/** A row if the redelivery was still the caller's. */
export const deleteRedelivery = (sql: SqlClient.SqlClient, endpointId: string, eventId: string, fence: number) =>
  sql`
            DELETE FROM webhook_redeliveries WHERE endpoint_id = ${endpointId} AND event_id = ${eventId} AND fence = ${fence} RETURNING 1`
