/** Attempts that workers take. Rows that another worker is taking are skipped, so no worker waits for another. */
import { TAKEN_TIME } from "@slipway/domain/partner/ports/WebhookStore"
import { Duration, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { ClaimedRow } from "../rows/WebhookRows.ts"

/** When an attempt that is taken now may be taken by another worker. */
const takenUntil = (sql: SqlClient.SqlClient) => sql`clock_timestamp() + make_interval(secs => ${Duration.toSeconds(TAKEN_TIME)})`

const EVENT = `p.id AS "eventId", p.sequence, p.type, p.data, p.created_at AS "recordedAt"`
const TAKEN = `e.id AS "endpointId", e.url, e.secrets, e.failures, e.due_at AS "dueAt"`
/** Only endpoints whose grant and organization are in use. */
export const HEARD = `
      JOIN grants g ON g.id = e.grant_id AND g.revoked_at IS NULL
      JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL`

/** Deliveries that somebody asked for: of each endpoint the oldest, by the primary key of `webhook_redeliveries`. */
export const takeManual = (sql: SqlClient.SqlClient) => {
  const until = takenUntil(sql)
  const event = sql.literal(EVENT)
  const taken = sql.literal(TAKEN)
  const heard = sql.literal(HEARD)
  return SqlSchema.findAll({
    Request: Schema.Int,
    Result: ClaimedRow,
    execute: (limit) =>
      sql`
      WITH first AS (
        SELECT DISTINCT ON (endpoint_id) endpoint_id, event_id FROM webhook_redeliveries ORDER BY endpoint_id, asked_at, event_id
      ), due AS (
        SELECT r.endpoint_id, r.event_id FROM first JOIN webhook_redeliveries r USING (endpoint_id, event_id)
        JOIN webhook_endpoints e ON e.id = r.endpoint_id ${heard}
        WHERE r.claimed_until IS NULL OR r.claimed_until <= clock_timestamp()
        ORDER BY r.asked_at LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED
      )
      UPDATE webhook_redeliveries r SET fence = r.fence + 1, claimed_until = ${until}
      FROM due, webhook_endpoints e, partner_events p
      WHERE (r.endpoint_id, r.event_id) = (due.endpoint_id, due.event_id) AND e.id = r.endpoint_id AND p.id = r.event_id
      RETURNING ${taken}, ${event}, r.fence`
  })
}

/**
 * The next event of each endpoint that is due. One statement, so the head and the events are seen at the same moment: unwanted events
 * up to the head are passed over, and those after the head are found the next time.
 */
export const takeOrdered = (sql: SqlClient.SqlClient) => {
  const until = takenUntil(sql)
  const event = sql.literal(EVENT)
  const taken = sql.literal(TAKEN)
  const heard = sql.literal(HEARD)
  return SqlSchema.findAll({
    Request: Schema.Struct({ now: Schema.String, limit: Schema.Int }),
    Result: ClaimedRow,
    execute: ({ limit, now }) =>
      sql`
      WITH due AS (
        SELECT e.id, e.grant_id, e.cursor, e.types, f.last_sequence
        FROM webhook_endpoints e JOIN partner_feeds f ON f.grant_id = e.grant_id AND f.last_sequence > e.cursor ${heard}
        WHERE e.disabled_at IS NULL AND (e.types IS NOT NULL OR e.notifications IS NULL) AND e.due_at <= ${now}
          AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
        ORDER BY e.due_at LIMIT ${limit} FOR NO KEY UPDATE OF e SKIP LOCKED
      ), next AS (
        SELECT due.id AS endpoint, due.last_sequence, p.* FROM due LEFT JOIN LATERAL (
          SELECT * FROM partner_events p
          WHERE p.grant_id = due.grant_id AND p.sequence > due.cursor AND (due.types IS NULL OR p.type = ANY (due.types))
          ORDER BY p.sequence LIMIT 1
        ) p ON true
      )
      UPDATE webhook_endpoints e SET
        cursor = coalesce(p.sequence - 1, p.last_sequence),
        fence = e.fence + 1,
        claimed_until = CASE WHEN p.id IS NOT NULL THEN ${until} END
      FROM next p WHERE e.id = p.endpoint
      RETURNING ${taken}, ${event}, e.fence`
  })
}
