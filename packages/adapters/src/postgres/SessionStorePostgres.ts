/** `SessionStore` on Postgres. */
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { SessionStore } from "@slipway/domain/access/SessionStore"
import { guard } from "./SqlFailure.ts"

const SessionRow = Schema.Struct({
  id: Schema.String,
  userId: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  lastSeenAt: Schema.DateTimeUtcFromDate
})

export const layer = Layer.effect(
  SessionStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(`id, user_id AS "userId", created_at AS "createdAt", last_seen_at AS "lastSeenAt"`)

    return SessionStore.of({
      start: Effect.fn("SessionStore.start")(function*(session, digest, { replaces, staleBefore }) {
        yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`
            DELETE FROM sessions
            WHERE digest = ${replaces} OR user_id = ${session.userId} AND created_at < ${DateTime.formatIso(staleBefore)}`
          yield* sql`
            INSERT INTO sessions (id, digest, user_id, created_at, last_seen_at)
            VALUES (${session.id}, ${digest}, ${session.userId}, ${DateTime.formatIso(session.createdAt)}, ${DateTime.formatIso(session.lastSeenAt)})`
        }))
      }, guard),

      find: Effect.fn("SessionStore.find")(function*(digest) {
        return Option.getOrNull(yield* SqlSchema.findOneOption({
          Request: Schema.String,
          Result: SessionRow,
          execute: (digest) => sql`SELECT ${columns} FROM sessions WHERE digest = ${digest}`
        })(digest))
      }, guard),

      touch: Effect.fn("SessionStore.touch")(function*(id, at) {
        yield* sql`UPDATE sessions SET last_seen_at = greatest(last_seen_at, ${DateTime.formatIso(at)}) WHERE id = ${id}`
      }, guard),

      end: Effect.fn("SessionStore.end")(function*(digest) {
        return Option.getOrNull(yield* SqlSchema.findOneOption({
          Request: Schema.String,
          Result: SessionRow,
          execute: (digest) => sql`DELETE FROM sessions WHERE digest = ${digest} RETURNING ${columns}`
        })(digest))
      }, guard),

      endAll: Effect.fn("SessionStore.endAll")(function*(userId) {
        return (yield* sql`DELETE FROM sessions WHERE user_id = ${userId} RETURNING 1`).length
      }, guard),

      makeLink: Effect.fn("SessionStore.makeLink")(function*({ at, expiresAt, userId }, digest) {
        yield* sql`
          WITH expired AS (DELETE FROM sign_in_links WHERE expires_at < ${DateTime.formatIso(at)})
          INSERT INTO sign_in_links (digest, user_id, expires_at) VALUES (${digest}, ${userId}, ${DateTime.formatIso(expiresAt)})`
      }, guard),

      // Whoever comes second waits for the first one's commit and then finds no row.
      useLink: Effect.fn("SessionStore.useLink")(function*(digest, at) {
        const [link] = yield* sql<{ readonly userId: string }>`
          DELETE FROM sign_in_links WHERE digest = ${digest} AND expires_at > ${DateTime.formatIso(at)} RETURNING user_id AS "userId"`
        return link?.userId ?? null
      }, guard)
    })
  })
)
