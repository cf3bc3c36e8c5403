/** Sessions and links to sign in with. */
import type { Session } from "@slipway/domain/access/rules/Session"
import { DateTime, Duration, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { SessionRow } from "./visits.ts"

/** Ends sessions, with their windows of the rate. */
const endWhere = (sql: SqlClient.SqlClient, which: Statement.Fragment) => {
  const columns = sql.literal(
    `id, user_id AS "userId", identity_provider AS provider, created_at AS "createdAt", last_seen_at AS "lastSeenAt"`
  )
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: SessionRow,
    execute: () =>
      sql`
    WITH ended AS (DELETE FROM sessions WHERE ${which} RETURNING ${columns}),
      forgotten AS (DELETE FROM rate_windows w USING ended e WHERE w.key_id = e.id)
    SELECT * FROM ended`
  })(undefined)
}

/** By digest, and those of the user that are stale. */
export const endReplaced = (sql: SqlClient.SqlClient, replaces: string | null, userId: string, staleBefore: DateTime.Utc) =>
  endWhere(sql, sql`digest = ${replaces} OR user_id = ${userId} AND created_at < ${DateTime.formatIso(staleBefore)}`)

export const endOne = (sql: SqlClient.SqlClient, digest: string) => endWhere(sql, sql`digest = ${digest}`)

export const endOfUser = (sql: SqlClient.SqlClient, userId: string) => endWhere(sql, sql`user_id = ${userId}`)

export const insertSession = (sql: SqlClient.SqlClient, session: Session, digest: string) => {
  const { createdAt, id, provider, userId } = session
  return sql`
          INSERT INTO sessions (id, digest, user_id, identity_provider, created_at, last_seen_at)
          VALUES (${id}, ${digest}, ${userId}, ${provider}, ${DateTime.formatIso(createdAt)}, ${DateTime.formatIso(session.lastSeenAt)})`
}

export const updateGrant = (sql: SqlClient.SqlClient, id: string, grantId: string) =>
  sql`UPDATE sessions SET grant_id = ${grantId} WHERE id = ${id}`

/** The time never goes back. */
export const updateSeen = (sql: SqlClient.SqlClient, id: string, at: DateTime.Utc) =>
  sql`UPDATE sessions SET last_seen_at = greatest(last_seen_at, ${DateTime.formatIso(at)}) WHERE id = ${id}`

/** With the deletion of expired links. */
export const insertLink = (sql: SqlClient.SqlClient, digest: string, userId: string, life: Duration.Duration) =>
  sql`
          WITH expired AS (DELETE FROM sign_in_links WHERE expires_at <= now())
          INSERT INTO sign_in_links (digest, user_id, expires_at)
          VALUES (${digest}, ${userId}, now() + make_interval(secs => ${Duration.toSeconds(life)}::float8))`

/** The user of a link, which is used up. A second caller waits for the first one's commit and finds no row. */
export const takeLink = (sql: SqlClient.SqlClient, digest: string) =>
  sql<{ readonly userId: string }>`
          DELETE FROM sign_in_links WHERE digest = ${digest} AND expires_at > now() RETURNING user_id AS "userId"`

/** With the deletion of expired tickets. Processes that delete at once skip each other's rows: no deadlock. */
export const insertTicket = (sql: SqlClient.SqlClient, digest: string, life: Duration.Duration) =>
  sql`
          WITH expired AS (
            DELETE FROM preview_tickets WHERE digest IN (
              SELECT digest FROM preview_tickets WHERE expires_at <= now() FOR UPDATE SKIP LOCKED))
          INSERT INTO preview_tickets (digest, expires_at)
          VALUES (${digest}, now() + make_interval(secs => ${Duration.toSeconds(life)}::float8))`

/** One row if the ticket is used up by this call. A second caller waits for the first one's commit and finds no row. */
export const takeTicket = (sql: SqlClient.SqlClient, digest: string) =>
  sql`DELETE FROM preview_tickets WHERE digest = ${digest} AND expires_at > now() RETURNING digest`
