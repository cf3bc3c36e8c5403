/** Endpoints: the table `webhook_endpoints`, as `e`. */
import { type EndpointKey, EndpointNotFound } from "@slipway/domain/partner/ports/WebhookStore"
import {
  type DeliveryProgress,
  type DisabledReason,
  type Endpoint,
  feedTypes,
  wantedNotifications
} from "@slipway/domain/partner/rules/Webhook"
import { DateTime, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"
import { textArray } from "../../sql/TextArray.ts"
import { ENDPOINT, EndpointRow, NO_FEED, toEndpoint } from "../rows/WebhookRows.ts"

const iso = DateTime.formatIso
const decodeEndpoints = Schema.decodeUnknownEffect(Schema.mutable(Schema.Array(EndpointRow)))

/** The rows of a statement as endpoints. */
const endpoints = <E, R>(rows: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.map(Effect.flatMap(rows, decodeEndpoints), (found) => found.map(toEndpoint))

const one = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, { grantId, id }: EndpointKey, lock: Statement.Fragment) {
  const columns = sql.literal(ENDPOINT)
  const [endpoint] = yield* endpoints(
    sql`SELECT ${columns} FROM webhook_endpoints e WHERE id = ${id} AND grant_id = ${grantId} ${lock}`
  )
  return endpoint ?? (yield* new EndpointNotFound())
})

/** One endpoint of a grant. */
export const find = (sql: SqlClient.SqlClient, key: EndpointKey) => one(sql, key, sql``)

/** The same, locked until the transaction ends: changes of one endpoint wait for each other. */
export const findLocked = (sql: SqlClient.SqlClient, key: EndpointKey) => one(sql, key, sql`FOR NO KEY UPDATE`)

export const selectOfGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  endpoints(sql`SELECT ${sql.literal(ENDPOINT)} FROM webhook_endpoints e WHERE grant_id = ${grantId} ORDER BY created_at, id`)

/** The endpoint of any owner, locked. */
export const selectLocked = (sql: SqlClient.SqlClient, id: string) =>
  endpoints(sql`SELECT ${sql.literal(ENDPOINT)} FROM webhook_endpoints e WHERE id = ${id} FOR NO KEY UPDATE`)

export const selectById = (sql: SqlClient.SqlClient, id: string) =>
  endpoints(sql`SELECT ${sql.literal(ENDPOINT)} FROM webhook_endpoints e WHERE id = ${id}`)

/** The endpoint, locked, if its attempt is still the caller's. */
export const selectTaken = (sql: SqlClient.SqlClient, id: string, fence: number) =>
  endpoints(sql`
            SELECT ${sql.literal(ENDPOINT)} FROM webhook_endpoints e
            WHERE id = ${id} AND fence = ${fence} AND claimed_until IS NOT NULL FOR NO KEY UPDATE`)

/** Registrations of one grant wait for each other, so each counts those before it. */
export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT pg_advisory_xact_lock(hashtextextended(${`webhooks/${grantId}`}, 0))`

/** A row for each endpoint of the grant. */
export const countOfGrant = (sql: SqlClient.SqlClient, grantId: string) => sql`SELECT FROM webhook_endpoints WHERE grant_id = ${grantId}`

/** The newest sequence of a grant's feed, by its primary key. */
export const feedHead = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ head: Int8 }),
    execute: (grantId) => sql`SELECT last_sequence AS head FROM partner_feeds WHERE grant_id = ${grantId}`
  })

const orNull = (types: ReadonlyArray<string> | null) => types === null || types.length === 0 ? null : textArray(types)

/** `secrets`: encrypted. */
export const insertEndpoint = (
  sql: SqlClient.SqlClient,
  { createdAt, cursor, dueAt, grantId, id, types, url }: Endpoint,
  secrets: string
) => {
  const feed = feedTypes(types)
  return sql`
          INSERT INTO webhook_endpoints (id, grant_id, url, types, notifications, secrets, created_at, cursor, due_at)
          VALUES (${id}, ${grantId}, ${url}, ${orNull(feed)}::text[], ${orNull(wantedNotifications(types))}::text[],
            ${secrets}::jsonb,
            ${iso(createdAt)}, ${feed?.length === 0 ? NO_FEED : cursor}, ${iso(dueAt)})`
}

/** With its log and its redeliveries, by the foreign keys. */
export const deleteEndpoint = (sql: SqlClient.SqlClient, id: string) => sql`DELETE FROM webhook_endpoints WHERE id = ${id}`

const standing = (sql: SqlClient.SqlClient, { cursor, disabled, dueAt, failures }: DeliveryProgress) =>
  sql`
      cursor = CASE WHEN types IS NULL AND notifications IS NOT NULL THEN cursor ELSE ${cursor} END,
      failures = ${failures}, due_at = ${iso(dueAt)},
      disabled_at = ${disabled === null ? null : iso(disabled.at)},
      disabled_reason = ${disabled === null ? null : storedReason(disabled.reason)},
      silenced_at = ${disabled?.reason === "not_accepting" ? iso(disabled.at) : null}`

/** Processes of earlier versions know two reasons. */
const storedReason = (reason: DisabledReason) => reason === "not_accepting" ? "retries_exhausted" : reason

/** The endpoint as it is enabled: position, failures, next attempt. */
export const updateEnabled = (sql: SqlClient.SqlClient, id: string, after: DeliveryProgress) =>
  sql`UPDATE webhook_endpoints SET ${standing(sql, after)}, refusing_since = NULL WHERE id = ${id}`

/** Position, failures and next attempt after an attempt: the endpoint is free to be taken again. */
export const updateAfterAttempt = (sql: SqlClient.SqlClient, id: string, after: DeliveryProgress, isDelivered: boolean) =>
  sql`
    UPDATE webhook_endpoints SET ${standing(sql, after)}, claimed_until = NULL,
      refusing_since = CASE WHEN ${isDelivered} THEN NULL ELSE refusing_since END
    WHERE id = ${id}`

/** Since when it accepts nothing, and whether it is disabled now. */
export const updateRefusal = (
  sql: SqlClient.SqlClient,
  id: string,
  since: DateTime.Utc | null,
  disabled: DeliveryProgress["disabled"]
) => {
  const refusing = sql`refusing_since = ${since === null ? null : iso(since)}`
  if (disabled === null) return sql`UPDATE webhook_endpoints SET ${refusing} WHERE id = ${id}`
  return sql`
    UPDATE webhook_endpoints SET ${refusing}, disabled_at = ${iso(disabled.at)}, disabled_reason = ${storedReason(disabled.reason)},
      silenced_at = ${disabled.reason === "not_accepting" ? iso(disabled.at) : null}
    WHERE id = ${id}`
}
