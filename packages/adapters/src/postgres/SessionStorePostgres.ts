/** `SessionStore` on Postgres. */
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { SessionStore, told } from "@slipway/domain/access/SessionStore"
import * as AuditLogPostgres from "./AuditLogPostgres.ts"
import { guard } from "./SqlFailure.ts"

const SessionRow = Schema.Struct({
  id: Schema.String,
  userId: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  lastSeenAt: Schema.DateTimeUtcFromDate
})

/** With the `AuditLog` it tells. */
export const layer = Layer.effect(
  SessionStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const columns = sql.literal(`id, user_id AS "userId", created_at AS "createdAt", last_seen_at AS "lastSeenAt"`)

    const endWhere = (which: Statement.Fragment) =>
      SqlSchema.findAll({
        Request: Schema.Void,
        Result: SessionRow,
        execute: () => sql`DELETE FROM sessions WHERE ${which} RETURNING ${columns}`
      })(undefined)

    return SessionStore.of({
      start: Effect.fn("SessionStore.start")(function*(session, digest, { replaces, staleBefore }) {
        const { createdAt, id, userId } = session
        const ended = yield* endWhere(sql`digest = ${replaces} OR user_id = ${userId} AND created_at < ${DateTime.formatIso(staleBefore)}`)
        yield* sql`
          INSERT INTO sessions (id, digest, user_id, created_at, last_seen_at)
          VALUES (${id}, ${digest}, ${userId}, ${DateTime.formatIso(createdAt)}, ${DateTime.formatIso(session.lastSeenAt)})`
        yield* audit.append([...ended.map((other) => told("session.ended", other, createdAt)), told("session.started", session, createdAt)])
      }, sql.withTransaction, guard),

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

      end: Effect.fn("SessionStore.end")(function*(digest, at) {
        const ended = yield* endWhere(sql`digest = ${digest}`)
        yield* audit.append(ended.map((session) => told("session.ended", session, at)))
        return ended[0] ?? null
      }, sql.withTransaction, guard),

      endAll: Effect.fn("SessionStore.endAll")(function*(userId, at) {
        const ended = yield* endWhere(sql`user_id = ${userId}`)
        yield* audit.append(ended.map((session) => told("session.ended", session, at)))
        return ended.length
      }, sql.withTransaction, guard),

      makeLink: Effect.fn("SessionStore.makeLink")(function*({ at, expiresAt, userId }, digest) {
        yield* sql`
          WITH expired AS (DELETE FROM sign_in_links WHERE expires_at < ${DateTime.formatIso(at)})
          INSERT INTO sign_in_links (digest, user_id, expires_at) VALUES (${digest}, ${userId}, ${DateTime.formatIso(expiresAt)})`
        yield* audit.append([{ action: "sign_in_link.made", at, subjects: { userId } }])
      }, sql.withTransaction, guard),

      // Whoever comes second waits for the first one's commit and then finds no row.
      useLink: Effect.fn("SessionStore.useLink")(function*(digest, at) {
        const [link] = yield* sql<{ readonly userId: string }>`
          DELETE FROM sign_in_links WHERE digest = ${digest} AND expires_at > ${DateTime.formatIso(at)} RETURNING user_id AS "userId"`
        if (link === undefined) return null
        yield* audit.append([{ action: "sign_in_link.used", at, subjects: link }])
        return link.userId
      }, sql.withTransaction, guard)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
