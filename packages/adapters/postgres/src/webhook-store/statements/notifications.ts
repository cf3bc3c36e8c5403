/** The queue of notifications: the tables `notifications` and `notification_lines`. Rows that another worker takes are skipped. */
import { TAKEN_TIME } from "@slipway/domain/partner/ports/WebhookStore"
import {
  type LineProgress,
  MAX_AT_ENDPOINT,
  MAX_AT_REFUSING,
  MAX_OF_GRANT,
  MAX_QUEUED_OF_GRANT
} from "@slipway/domain/partner/rules/Notification"
import { DateTime, Duration, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { NotificationRow } from "../rows/NotificationRows.ts"
import { HEARD } from "./take.ts"

const iso = DateTime.formatIso
const takenUntil = (sql: SqlClient.SqlClient) => sql`clock_timestamp() + make_interval(secs => ${Duration.toSeconds(TAKEN_TIME)})`

const TAKEN = `e.id AS "endpointId", e.url, e.secrets, s.id AS "sandboxId", s.repos, s.metadata`

/** Redeliveries that somebody asked for: of each endpoint the oldest. */
export const takeManualNotifications = (sql: SqlClient.SqlClient) => {
  const [heard, taken, until] = [sql.literal(HEARD), sql.literal(TAKEN), takenUntil(sql)]
  return SqlSchema.findAll({
    Request: Schema.Struct({ now: Schema.String, limit: Schema.Int }),
    Result: NotificationRow,
    execute: ({ limit, now }) =>
      sql`
      WITH first AS (
        SELECT DISTINCT ON (endpoint_id) endpoint_id, sandbox_id, seq FROM notification_redeliveries
        ORDER BY endpoint_id, asked_at, sandbox_id, seq
      ), due AS (
        SELECT r.endpoint_id, r.sandbox_id, r.seq FROM first JOIN notification_redeliveries r USING (endpoint_id, sandbox_id, seq)
        JOIN webhook_endpoints e ON e.id = r.endpoint_id ${heard}
        WHERE r.claimed_until IS NULL OR r.claimed_until <= clock_timestamp()
        ORDER BY r.asked_at LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED
      )
      UPDATE notification_redeliveries r SET fence = r.fence + 1, claimed_until = ${until}
      FROM due, webhook_endpoints e, notifications n, sandbox_events v, sandboxes s
      WHERE (r.endpoint_id, r.sandbox_id, r.seq) = (due.endpoint_id, due.sandbox_id, due.seq) AND e.id = r.endpoint_id
        AND (n.sandbox_id, n.seq) = (r.sandbox_id, r.seq) AND (v.sandbox_id, v.seq) = (r.sandbox_id, r.seq) AND s.id = r.sandbox_id
      RETURNING ${taken}, 0 AS failures, ${now}::timestamptz AS "dueAt", r.fence, n.seq, n.types[1] AS type, n.title, n.status, v.wire`
  })
}

/**
 * The next notification of lines that are due. "place" counts the attempts of a grant, those under way first: of each grant the first ones
 * come first, and none beyond its limit. A line whose events are gone looks again later, until it is purged.
 */
export const takeLines = (sql: SqlClient.SqlClient) => {
  const [heard, taken, until] = [sql.literal(HEARD), sql.literal(TAKEN), takenUntil(sql)]
  return SqlSchema.findAll({
    Request: Schema.Struct({ now: Schema.String, limit: Schema.Int }),
    Result: NotificationRow,
    execute: ({ limit, now }) =>
      sql`
      WITH busy AS MATERIALIZED (
        SELECT endpoint_id, count(*) AS lines FROM notification_lines WHERE claimed_until > clock_timestamp() GROUP BY endpoint_id
      ), listening AS MATERIALIZED (
        SELECT e.id, e.grant_id, e.disabled_at IS NULL AS enabled, coalesce(b.lines, 0) AS busy,
          greatest(CASE WHEN e.refusing_since IS NULL THEN ${MAX_AT_ENDPOINT}::bigint ELSE ${MAX_AT_REFUSING} END - coalesce(b.lines, 0), 0)
            AS room,
          sum(coalesce(b.lines, 0)) OVER (PARTITION BY e.grant_id) AS busy_of_grant
        FROM webhook_endpoints e ${heard} LEFT JOIN busy b ON b.endpoint_id = e.id WHERE e.notifications IS NOT NULL
      ), placed AS (
        SELECT l.sandbox_id, l.endpoint_id, l.due_at,
          e.busy_of_grant + row_number() OVER (PARTITION BY e.grant_id ORDER BY l.place, l.due_at) AS place
        FROM listening e CROSS JOIN LATERAL (
          SELECT f.sandbox_id, f.endpoint_id, f.due_at, row_number() OVER (ORDER BY f.due_at) AS place FROM (
            SELECT sandbox_id, endpoint_id, due_at FROM notification_lines
            WHERE endpoint_id = e.id AND due_at <= ${now} AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
            ORDER BY due_at LIMIT e.room
          ) f
        ) l WHERE e.enabled
      ), chosen AS (
        SELECT * FROM placed WHERE place <= ${MAX_OF_GRANT} ORDER BY place, due_at LIMIT ${limit}
      ), due AS (
        SELECT l.sandbox_id, l.endpoint_id, l.cursor FROM chosen JOIN notification_lines l USING (sandbox_id, endpoint_id)
        WHERE l.due_at <= ${now} AND (l.claimed_until IS NULL OR l.claimed_until <= clock_timestamp())
        FOR NO KEY UPDATE OF l SKIP LOCKED
      ), next AS (
        SELECT due.endpoint_id, due.sandbox_id, n.seq, n.types[1] AS type, n.title, n.status, n.wire
        FROM due JOIN webhook_endpoints e ON e.id = due.endpoint_id LEFT JOIN LATERAL (
          SELECT n.*, v.wire FROM notifications n JOIN sandbox_events v USING (sandbox_id, seq)
          WHERE n.sandbox_id = due.sandbox_id AND n.seq > due.cursor AND n.types && e.notifications ORDER BY n.seq LIMIT 1
        ) n ON true
      )
      UPDATE notification_lines l SET
        fence = l.fence + 1,
        claimed_until = CASE WHEN n.seq IS NOT NULL THEN ${until} END,
        due_at = CASE WHEN n.seq IS NULL THEN ${now}::timestamptz + interval '5 seconds' ELSE l.due_at END
      FROM next n, webhook_endpoints e, sandboxes s
      WHERE (l.sandbox_id, l.endpoint_id) = (n.sandbox_id, n.endpoint_id) AND e.id = n.endpoint_id AND s.id = n.sandbox_id
      RETURNING ${taken}, l.failures, l.due_at AS "dueAt", l.fence, n.seq, n.type, n.title, n.status, n.wire`
  })
}

/** The line, locked, if its attempt is still the caller's. */
export const selectLine = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ endpointId: Schema.String, sandboxId: Schema.String, fence: Schema.Int }),
    Result: Schema.Struct({ newest: Int8, dueAt: Schema.NullOr(Instant) }),
    execute: ({ endpointId, fence, sandboxId }) =>
      sql`
        SELECT newest, due_at AS "dueAt" FROM notification_lines
        WHERE sandbox_id = ${sandboxId} AND endpoint_id = ${endpointId} AND fence = ${fence} AND claimed_until IS NOT NULL
        FOR NO KEY UPDATE`
  })

/** Progress after an attempt: the line is free to be taken again. */
export const updateLine = (
  sql: SqlClient.SqlClient,
  { endpointId, sandboxId }: { readonly endpointId: string; readonly sandboxId: string },
  { cursor, dueAt, failures }: LineProgress
) =>
  sql`
    UPDATE notification_lines SET cursor = ${cursor}, failures = ${failures}, due_at = ${dueAt === null ? null : iso(dueAt)},
      claimed_until = NULL
    WHERE sandbox_id = ${sandboxId} AND endpoint_id = ${endpointId}`

/** Makes waiting lines due at once, with all attempts. */
export const enableLines = (sql: SqlClient.SqlClient, endpointId: string, at: DateTime.Utc) =>
  sql`UPDATE notification_lines SET failures = 0, due_at = ${iso(at)} WHERE endpoint_id = ${endpointId} AND due_at IS NOT NULL`

/** A notification that the endpoint's log has and that is kept. */
export const selectNotification = (sql: SqlClient.SqlClient, endpointId: string, eventId: string) =>
  sql<{ readonly sandboxId: string; readonly seq: bigint }>`
    SELECT n.sandbox_id AS "sandboxId", n.seq FROM webhook_deliveries d
    JOIN notifications n ON n.sandbox_id = d.sandbox_id AND n.seq = d.sequence
    WHERE d.endpoint_id = ${endpointId} AND d.event_id = ${eventId} AND d.sandbox_id IS NOT NULL LIMIT 1`

export const insertNotificationRedelivery = (
  sql: SqlClient.SqlClient,
  endpointId: string,
  { seq, sandboxId }: { readonly sandboxId: string; readonly seq: bigint },
  at: DateTime.Utc
) =>
  sql`
    INSERT INTO notification_redeliveries (endpoint_id, sandbox_id, seq, asked_at)
    VALUES (${endpointId}, ${sandboxId}, ${seq}, ${iso(at)}) ON CONFLICT DO NOTHING`

/** A row if the redelivery was still the caller's. */
export const deleteNotificationRedelivery = (
  sql: SqlClient.SqlClient,
  { endpointId, fence, sandboxId, seq }: {
    readonly endpointId: string
    readonly sandboxId: string
    readonly seq: number
    readonly fence: number
  }
) =>
  sql`
    DELETE FROM notification_redeliveries
    WHERE endpoint_id = ${endpointId} AND sandbox_id = ${sandboxId} AND seq = ${seq} AND fence = ${fence} RETURNING 1`

/** The oldest notifications, by age and beyond the limit of their grant. */
export const purgeQueued = (sql: SqlClient.SqlClient, before: DateTime.Utc, limit: number) =>
  sql`
    DELETE FROM notifications WHERE (sandbox_id, seq) IN (
      SELECT sandbox_id, seq FROM (
        (SELECT sandbox_id, seq, at FROM notifications WHERE at < ${iso(before)} ORDER BY at LIMIT ${limit})
        UNION
        SELECT sandbox_id, seq, at FROM (
          SELECT n.sandbox_id, n.seq, n.at,
            row_number() OVER (PARTITION BY s.grant_id ORDER BY n.at DESC, n.sandbox_id, n.seq DESC) AS place
          FROM notifications n JOIN sandboxes s ON s.id = n.sandbox_id
        ) placed WHERE place > ${MAX_QUEUED_OF_GRANT}
      ) old ORDER BY at, sandbox_id, seq LIMIT ${limit}
    ) RETURNING 1`

/** Lines whose notifications are all gone, or whose endpoint is. Sandboxes may begin new ones. */
export const purgeLines = (sql: SqlClient.SqlClient, limit: number) =>
  sql`
    DELETE FROM notification_lines WHERE (sandbox_id, endpoint_id) IN (
      SELECT l.sandbox_id, l.endpoint_id FROM notification_lines l
      WHERE NOT EXISTS (SELECT FROM notifications n WHERE n.sandbox_id = l.sandbox_id AND n.seq = l.newest)
        OR NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = l.endpoint_id)
      LIMIT ${limit} FOR UPDATE SKIP LOCKED
    )`
