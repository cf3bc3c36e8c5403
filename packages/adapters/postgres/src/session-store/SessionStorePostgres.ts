/** `SessionStore` on Postgres. Changes are transactions with their entries in the audit log. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SessionStore, told } from "@slipway/domain/access/ports/SessionStore"
import type { Visit } from "@slipway/domain/access/rules/Session"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { slotOf } from "../access-store/rows/RateSlotRow.ts"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import * as Statements from "./statements/sessions.ts"
import { findVisit, grantsOf, openVisits, type VisitRow } from "./statements/visits.ts"

const visitOf = (
  { addedAt, approvedAt, createdAt, email, githubLogin, id, lastSeenAt, name, place, provider, userId }: typeof VisitRow.Type
): Visit => ({
  session: { id, userId, provider, createdAt, lastSeenAt },
  user: { id: userId, name, email, githubLogin, createdAt: addedAt, approvedAt },
  place
})

/** With the `AuditLog` it tells. */
export const layer = Layer.effect(
  SessionStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const audit = yield* AuditLog
    const [visit, open, grants] = [findVisit(reads), openVisits(reads), grantsOf(reads)]

    return SessionStore.of({
      start: Effect.fn("SessionStore.start")(
        function*(session, digest, { replaces, staleBefore }) {
          const { createdAt } = session
          const ended = yield* Statements.endReplaced(sql, replaces, session.userId, staleBefore)
          yield* Statements.insertSession(sql, session, digest)
          yield* audit.append([...ended.map((other) => told("session.ended", other, createdAt)),
            told("session.started", session, createdAt)])
        },
        sql.withTransaction,
        guard
      ),

      admit: Effect.fnUntraced(function*(digest, limits) {
        const found = Option.getOrNull(yield* visit({ digest, ...limits }))
        return found === null ? null : { visit: visitOf(found), rate: slotOf(found) }
      }, guard),

      stillThere: (visits) =>
        guard(
          Effect.map(open(JSON.stringify(visits)), (rows) => rows.map(({ grantId, role, ...session }) => ({ session, grantId, role })))
        ),

      grantsOf: (userId) => guard(grants(userId)),

      chooseGrant: (id, grantId) => guard(Effect.asVoid(Statements.updateGrant(sql, id, grantId))),

      touch: Effect.fn("SessionStore.touch")((id, at) => Effect.asVoid(Statements.updateSeen(sql, id, at)), guard),

      end: Effect.fn("SessionStore.end")(
        function*(digest, at) {
          const ended = yield* Statements.endOne(sql, digest)
          yield* audit.append(ended.map((session) => told("session.ended", session, at)))
          return ended[0] ?? null
        },
        sql.withTransaction,
        guard
      ),

      endAll: Effect.fn("SessionStore.endAll")(
        function*(userId, at) {
          const ended = yield* Statements.endOfUser(sql, userId)
          yield* audit.append(ended.map((session) => told("session.ended", session, at)))
          return ended.length
        },
        sql.withTransaction,
        guard
      ),

      makeLink: Effect.fn("SessionStore.makeLink")(
        function*({ at, life, userId }, digest) {
          yield* Statements.insertLink(sql, digest, userId, life)
          yield* audit.append([{ action: "sign_in_link.made", at, subjects: { userId } }])
        },
        sql.withTransaction,
        guard
      ),

      useLink: Effect.fn("SessionStore.useLink")(
        function*(digest, at) {
          const [link] = yield* Statements.takeLink(sql, digest)
          if (link === undefined) return null
          yield* audit.append([{ action: "sign_in_link.used", at, subjects: link }])
          return link.userId
        },
        sql.withTransaction,
        guard
      ),

      makeTicket: Effect.fn("SessionStore.makeTicket")(
        (digest, life) => Effect.asVoid(Statements.insertTicket(sql, digest, life)),
        guard
      ),

      useTicket: Effect.fn("SessionStore.useTicket")(
        (digest) => Effect.map(Statements.takeTicket(sql, digest), ({ length }) => length > 0),
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
