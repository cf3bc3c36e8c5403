/** `SessionStore` on Postgres. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { SessionStore, told } from "@slipway/domain/access/ports/SessionStore"
import type { Visit } from "@slipway/domain/access/rules/Session"
import { Role } from "@slipway/domain/access/schema/User"
import { DateTime, Duration, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { RateSlotRow, slotOf } from "../access-store/RateSlotRow.ts"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { Reads } from "../Database.ts"
import { guard } from "../sql/SqlFailure.ts"

const SessionRow = Schema.Struct({
  id: Schema.String,
  userId: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  lastSeenAt: Schema.DateTimeUtcFromDate
})

const Place = Schema.Struct({ grantId: Schema.String, organizationId: Schema.String, role: Role, organizationSuspended: Schema.Boolean })

const GrantRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  organizationId: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  revokedAt: Schema.NullOr(Schema.DateTimeUtcFromDate),
  role: Role
})

const VisitRow = Schema.Struct({
  ...SessionRow.fields,
  name: Schema.String,
  email: Schema.NullOr(Schema.String),
  githubLogin: Schema.NullOr(Schema.String),
  addedAt: Schema.DateTimeUtcFromDate,
  approvedAt: Schema.NullOr(Schema.DateTimeUtcFromDate),
  place: Schema.NullOr(Place),
  ...RateSlotRow.fields
})

/** With the `AuditLog` it tells. */
export const layer = Layer.effect(
  SessionStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const audit = yield* AuditLog
    const columns = sql.literal(`id, user_id AS "userId", created_at AS "createdAt", last_seen_at AS "lastSeenAt"`)

    const visits = SqlSchema.findOneOption({
      Request: Schema.Struct({ digest: Schema.String, credential: Schema.Int, user: Schema.Int }),
      Result: VisitRow,
      execute: ({ credential, digest, user }) =>
        reads`
        WITH found AS MATERIALIZED (
          SELECT s.id, s.user_id, s.created_at, s.last_seen_at, u.name, u.email, u.github_login, u.created_at AS added_at, u.approved_at,
            p.place
          FROM sessions s
          JOIN users u ON u.id = s.user_id
          LEFT JOIN LATERAL (
            SELECT jsonb_build_object('grantId', g.id, 'organizationId', o.id, 'role', m.role,
              'organizationSuspended', o.suspended_at IS NOT NULL) AS place
            FROM memberships m
            JOIN organizations o ON o.id = m.organization_id
            JOIN grants g ON g.organization_id = o.id AND g.revoked_at IS NULL
            WHERE m.user_id = s.user_id AND m.active
            ORDER BY g.id = s.grant_id DESC NULLS LAST, g.created_at, g.id LIMIT 1
          ) p ON true
          WHERE s.digest = ${digest}
        )
        SELECT f.id, f.user_id AS "userId", f.created_at AS "createdAt", f.last_seen_at AS "lastSeenAt", f.name, f.email,
          f.github_login AS "githubLogin", f.added_at AS "addedAt", f.approved_at AS "approvedAt", f.place,
          r.taken, r.remaining, r.reset_ms AS "resetMillis", r.tightest
        FROM found f CROSS JOIN LATERAL take_rate_slots(
          ARRAY[f.id, md5('sessions of ' || f.user_id)::uuid], ARRAY[${credential}::integer, ${user}::integer]) r`
    })
    const open = SqlSchema.findAll({
      Request: Schema.String,
      Result: Schema.Struct({ ...SessionRow.fields, grantId: Schema.String }),
      execute: (visits) =>
        reads`
        SELECT s.id, s.user_id AS "userId", s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt", g.id AS "grantId"
        FROM jsonb_to_recordset(${visits}::jsonb) AS v("sessionId" uuid, "grantId" uuid)
        JOIN sessions s ON s.id = v."sessionId"
        JOIN users u ON u.id = s.user_id AND u.approved_at IS NOT NULL
        JOIN grants g ON g.id = v."grantId" AND g.revoked_at IS NULL
        JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL
        JOIN memberships m ON m.organization_id = o.id AND m.user_id = s.user_id AND m.active`
    })
    const grants = SqlSchema.findAll({
      Request: Schema.String,
      Result: GrantRow,
      execute: (userId) =>
        reads`
        SELECT g.id, g.name, g.organization_id AS "organizationId", g.created_at AS "createdAt", g.revoked_at AS "revokedAt", m.role
        FROM memberships m JOIN grants g ON g.organization_id = m.organization_id AND g.revoked_at IS NULL
        WHERE m.user_id = ${userId} AND m.active ORDER BY g.created_at, g.id`
    })

    const endWhere = (which: Statement.Fragment) =>
      SqlSchema.findAll({
        Request: Schema.Void,
        Result: SessionRow,
        execute: () =>
          sql`
          WITH ended AS (DELETE FROM sessions WHERE ${which} RETURNING ${columns}),
            forgotten AS (DELETE FROM rate_windows w USING ended e WHERE w.key_id = e.id)
          SELECT * FROM ended`
      })(undefined)

    return SessionStore.of({
      start: Effect.fn("SessionStore.start")(
        function*(session, digest, { replaces, staleBefore }) {
          const { createdAt, id, userId } = session
          const ended = yield* endWhere(
            sql`digest = ${replaces} OR user_id = ${userId} AND created_at < ${DateTime.formatIso(staleBefore)}`
          )
          yield* sql`
          INSERT INTO sessions (id, digest, user_id, created_at, last_seen_at)
          VALUES (${id}, ${digest}, ${userId}, ${DateTime.formatIso(createdAt)}, ${DateTime.formatIso(session.lastSeenAt)})`
          yield* audit.append([...ended.map((other) => told("session.ended", other, createdAt)),
            told("session.started", session, createdAt)])
        },
        sql.withTransaction,
        guard
      ),

      admit: Effect.fnUntraced(function*(digest, limits) {
        const found = Option.getOrNull(yield* visits({ digest, ...limits }))
        if (found === null) return null
        const { addedAt, approvedAt, createdAt, email, githubLogin, id, lastSeenAt, name, place, userId } = found
        const visit: Visit = {
          session: { id, userId, createdAt, lastSeenAt },
          user: { id: userId, name, email, githubLogin, createdAt: addedAt, approvedAt },
          place
        }
        return { visit, rate: slotOf(found) }
      }, guard),

      stillThere: (visits) =>
        guard(Effect.map(open(JSON.stringify(visits)), (rows) => rows.map(({ grantId, ...session }) => ({ session, grantId })))),

      grantsOf: (userId) => guard(grants(userId)),

      chooseGrant: (id, grantId) => guard(Effect.asVoid(sql`UPDATE sessions SET grant_id = ${grantId} WHERE id = ${id}`)),

      touch: Effect.fn("SessionStore.touch")(function*(id, at) {
        yield* sql`UPDATE sessions SET last_seen_at = greatest(last_seen_at, ${DateTime.formatIso(at)}) WHERE id = ${id}`
      }, guard),

      end: Effect.fn("SessionStore.end")(
        function*(digest, at) {
          const ended = yield* endWhere(sql`digest = ${digest}`)
          yield* audit.append(ended.map((session) => told("session.ended", session, at)))
          return ended[0] ?? null
        },
        sql.withTransaction,
        guard
      ),

      endAll: Effect.fn("SessionStore.endAll")(
        function*(userId, at) {
          const ended = yield* endWhere(sql`user_id = ${userId}`)
          yield* audit.append(ended.map((session) => told("session.ended", session, at)))
          return ended.length
        },
        sql.withTransaction,
        guard
      ),

      makeLink: Effect.fn("SessionStore.makeLink")(
        function*({ at, life, userId }, digest) {
          yield* sql`
          WITH expired AS (DELETE FROM sign_in_links WHERE expires_at <= now())
          INSERT INTO sign_in_links (digest, user_id, expires_at)
          VALUES (${digest}, ${userId}, now() + make_interval(secs => ${Duration.toSeconds(life)}::float8))`
          yield* audit.append([{ action: "sign_in_link.made", at, subjects: { userId } }])
        },
        sql.withTransaction,
        guard
      ),

      // Whoever comes second waits for the first one's commit and then finds no row.
      useLink: Effect.fn("SessionStore.useLink")(
        function*(digest, at) {
          const [link] = yield* sql<{ readonly userId: string }>`
          DELETE FROM sign_in_links WHERE digest = ${digest} AND expires_at > now() RETURNING user_id AS "userId"`
          if (link === undefined) return null
          yield* audit.append([{ action: "sign_in_link.used", at, subjects: link }])
          return link.userId
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
