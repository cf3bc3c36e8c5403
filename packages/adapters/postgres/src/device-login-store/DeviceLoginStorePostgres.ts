/** `DeviceLoginStore` on Postgres. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { decided, DeviceLoginStore } from "@slipway/domain/access/ports/DeviceLoginStore"
import {
  ask,
  DEVICE_LOGIN_KEPT,
  DEVICE_LOGIN_LIFE,
  type DeviceDecision,
  type DeviceLogin,
  DeviceLoginRefused,
  INTERVAL
} from "@slipway/domain/access/rules/DeviceLogin"
import { networkOf } from "@slipway/domain/access/rules/Network"
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AccessStorePostgres from "../access-store/AccessStorePostgres.ts"
import { guard } from "../sql/SqlFailure.ts"

const Row = Schema.Struct({
  machine: Schema.String,
  address: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  decidedBy: Schema.NullOr(Schema.String),
  grantId: Schema.NullOr(Schema.String),
  interval: Schema.Int,
  lastAskedAt: Schema.NullOr(Schema.DateTimeUtcFromDate)
})

const decisionOf = ({ decidedBy, grantId }: typeof Row.Type): DeviceDecision | null =>
  decidedBy === null
    ? null
    : grantId === null
    ? { _tag: "Denied", userId: decidedBy }
    : { _tag: "Approved", userId: decidedBy, grantId }

const loginOf = (row: typeof Row.Type): DeviceLogin => ({
  machine: row.machine,
  address: row.address,
  createdAt: row.createdAt,
  decision: decisionOf(row),
  pace: { interval: row.interval, lastAskedAt: row.lastAskedAt }
})

/** With the `AccessStore` that makes its keys. */
export const layer = Layer.effect(
  DeviceLoginStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const access = yield* AccessStore
    const columns = sql.literal(`machine, address, created_at AS "createdAt", decided_by AS "decidedBy", grant_id AS "grantId",
      poll_interval AS "interval", last_asked_at AS "lastAskedAt"`)
    const one = (statement: Statement.Statement<object>) =>
      Effect.map(
        SqlSchema.findOneOption({ Request: Schema.Void, Result: Row, execute: () => statement })(undefined),
        (row) => Option.getOrNull(Option.map(row, loginOf))
      )
    /** Made before that, it is over. */
    const horizon = (now: DateTime.Utc) => DateTime.formatIso(DateTime.subtractDuration(now, DEVICE_LOGIN_LIFE))

    return DeviceLoginStore.of({
      begin: Effect.fn("DeviceLoginStore.begin")(
        function*({ address, createdAt, machine }, { device, user }, most) {
          // Those who begin wait for each other's commit. People who decide, and commands that ask, do not.
          yield* sql`SELECT pg_advisory_xact_lock(hashtextextended('device_logins', 0))`
          yield* sql`
          DELETE FROM device_logins
          WHERE created_at <= ${DateTime.formatIso(DateTime.subtractDuration(createdAt, DEVICE_LOGIN_KEPT))}::timestamptz`
          const network = networkOf(address)
          const begunAt = DateTime.formatIso(createdAt)
          // Without an address each is a network of its own.
          const open = sql`
            SELECT device_digest, created_at, coalesce(nullif(coalesce(network, address), ''), device_digest) AS network
            FROM device_logins WHERE decided_by IS NULL AND created_at > ${horizon(createdAt)}::timestamptz`
          yield* sql`
          DELETE FROM device_logins WHERE decided_by IS NULL AND device_digest IN (
            SELECT device_digest FROM (${open}) open WHERE network = ${network} ORDER BY created_at DESC OFFSET ${most.ofNetwork - 1}
          )`
          yield* sql`
          DELETE FROM device_logins WHERE decided_by IS NULL AND device_digest IN (
            SELECT device_digest FROM (SELECT *, count(*) OVER (PARTITION BY network) AS others FROM (${open}) open) open
            ORDER BY others, created_at DESC OFFSET ${most.ofAll - 1}
          )`
          const made = yield* sql`
          INSERT INTO device_logins (device_digest, user_digest, machine, address, network, created_at, poll_interval)
          VALUES (${device}, ${user}, ${machine}, ${address}, ${network}, ${begunAt}::timestamptz, ${INTERVAL}::integer)
          ON CONFLICT DO NOTHING RETURNING 1`
          return made.length === 1
        },
        sql.withTransaction,
        guard
      ),

      find: Effect.fn("DeviceLoginStore.find")(function*(userDigest, now) {
        return yield* one(sql`
          SELECT ${columns} FROM device_logins
          WHERE user_digest = ${userDigest} AND decided_by IS NULL AND created_at > ${horizon(now)}::timestamptz`)
      }, guard),

      // A second decision waits for the first one's commit and then finds the login decided.
      decide: Effect.fn("DeviceLoginStore.decide")(
        function*(userDigest, decision, at) {
          const login = yield* one(sql`
          UPDATE device_logins SET decided_by = ${decision.userId}, grant_id = ${decision._tag === "Approved" ? decision.grantId : null}
          WHERE user_digest = ${userDigest} AND decided_by IS NULL AND created_at > ${horizon(at)}::timestamptz
          RETURNING ${columns}`)
          if (login !== null) yield* audit.append([decided(decision, login, at)])
          return login
        },
        sql.withTransaction,
        guard
      ),

      ask: (deviceDigest, now) =>
        Effect.flatMap(
          Effect.gen(function*() {
            const login = yield* one(sql`SELECT ${columns} FROM device_logins WHERE device_digest = ${deviceDigest} FOR UPDATE`)
            if (login === null) return null
            const { answer, pace } = ask(login, now)
            yield* sql`
            UPDATE device_logins SET poll_interval = ${pace.interval},
              last_asked_at = ${pace.lastAskedAt === null ? null : DateTime.formatIso(pace.lastAskedAt)}::timestamptz
            WHERE device_digest = ${deviceDigest}`
            return { answer, machine: login.machine }
          }).pipe(sql.withTransaction, guard, Effect.withSpan("DeviceLoginStore.ask")),
          // A refusal keeps its pace: it is told when that is committed.
          Effect.fnUntraced(function*(asked) {
            if (asked === null) return yield* new DeviceLoginRefused({ because: "invalid_grant" })
            const { grantId, userId } = yield* Effect.fromResult(asked.answer)
            return { machine: asked.machine, userId, grantId }
          })
        ),

      redeem: Effect.fn("DeviceLoginStore.redeem")(
        function*(deviceDigest, key, keyDigest, mostKeys) {
          const taken = yield* sql`
          DELETE FROM device_logins WHERE device_digest = ${deviceDigest} AND grant_id IS NOT NULL RETURNING 1`
          return taken.length === 0 ? null : yield* access.createKey(key, keyDigest, mostKeys)
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AccessStorePostgres.layer))
