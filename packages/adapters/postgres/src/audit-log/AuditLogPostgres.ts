/** `AuditLog` on Postgres: a table that nothing changes but by adding to it. */
import { Acting, ActingFrom, Action, Actor, AuditLog, Origin } from "@slipway/domain/access/ports/AuditLog"
import { DateTime, Effect, Layer, Schema, Struct } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"

const EntryRow = Schema.Struct({
  action: Action,
  at: Schema.DateTimeUtcFromDate,
  subjects: Schema.Record(Schema.String, Schema.String),
  actor: Actor,
  origin: Schema.NullOr(Origin)
})

/** How far behind the newest entry a reader begins: transactions that were open then commit entries with lower numbers. */
const BEHIND = 100_000

/**
 * Numbers are drawn before their transactions commit, so a lower number may appear after a higher one. A writer locks the table
 * before it draws its number and until it ends: once all writers that held the lock when `last` was drawn have ended, the log is
 * complete up to `last`.
 */
interface Horizon {
  readonly last: number
  writers: ReadonlySet<string>
}

export const layer = Layer.effect(
  AuditLog,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient

    return AuditLog.of({
      append: Effect.fn("AuditLog.append")(function*(events) {
        if (events.length === 0) return
        const actor = yield* Acting
        const origin = yield* ActingFrom
        const rows = events.map(({ action, at, subjects }) => ({ action, at: DateTime.formatIso(at), subjects }))
        yield* sql`
          INSERT INTO audit_log (action, at, subjects, actor, origin)
          SELECT e ->> 'action', (e ->> 'at')::timestamptz, e -> 'subjects', ${JSON.stringify(actor)}::jsonb,
            ${origin === null ? null : JSON.stringify(origin)}::jsonb
          FROM jsonb_array_elements(${JSON.stringify(rows)}::jsonb) WITH ORDINALITY AS t(e, n) ORDER BY n`
      }, guard),

      list: Effect.fn("AuditLog.list")(function*({ limit, since }) {
        const newestFirst = yield* SqlSchema.findAll({
          Request: Schema.Struct({ since: Schema.NullOr(Schema.String), limit: Schema.Int }),
          Result: EntryRow,
          execute: ({ limit, since }) =>
            sql`
            SELECT action, at, subjects, actor, origin FROM audit_log
            WHERE at >= coalesce(${since}::timestamptz, '-infinity') ORDER BY seq DESC LIMIT ${limit}`
        })({ since: since === null ? null : DateTime.formatIso(since), limit })
        return newestFirst.toReversed()
      }, guard),

      page: Effect.fn("AuditLog.page")(function*({ after, limit, since }) {
        const rows = yield* SqlSchema.findAll({
          Request: Schema.Struct({ since: Schema.NullOr(Schema.String), after: Int8, limit: Schema.Int }),
          Result: Schema.Struct({ seq: Int8, ...EntryRow.fields }),
          execute: ({ after, limit, since }) =>
            sql`
            SELECT seq, action, at, subjects, actor, origin FROM audit_log
            WHERE seq > ${after} AND at >= coalesce(${since}::timestamptz, '-infinity') ORDER BY seq LIMIT ${limit}`
        })({ since: since === null ? null : DateTime.formatIso(since), after, limit })
        return rows.map(({ seq, ...entry }) => ({ number: seq, entry }))
      }, guard),

      follow: Effect.gen(function*() {
        const last = Effect.map(
          sql<
            { readonly last: bigint | null }
          >`SELECT pg_sequence_last_value(pg_get_serial_sequence('audit_log', 'seq')::regclass) AS last`,
          ([row]) => Number(row?.last ?? 0)
        )
        const writers = Effect.map(
          sql<{ readonly writer: string }>`
          SELECT virtualtransaction || ' ' || pid AS writer FROM pg_locks
          WHERE relation = 'audit_log'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND mode = 'RowExclusiveLock' AND granted`,
          (rows) => new Set(rows.map(({ writer }) => writer))
        )
        const after = SqlSchema.findAll({
          Request: Int8,
          Result: Schema.Struct({ seq: Int8, ...EntryRow.fields }),
          execute: (seq) => sql`SELECT seq, action, at, subjects, actor, origin FROM audit_log WHERE seq > ${seq} ORDER BY seq`
        })
        // In this order, each a statement of its own: who draws after `last` was read need not be waited for.
        const ahead = Effect.map(Effect.all([last, writers]), ([last, writers]): Horizon => ({ last, writers }))

        let horizon: Horizon | null = yield* ahead
        let complete = Math.max(0, horizon.last - BEHIND)
        let told = new Set(
          (yield* sql<{ readonly seq: bigint }>`SELECT seq FROM audit_log WHERE seq > ${complete}`).map(({ seq }) => Number(seq))
        )

        return Effect.gen(function*() {
          if (horizon === null) horizon = yield* ahead
          else horizon.writers = horizon.writers.intersection(yield* writers)
          const rows = yield* after(complete)
          const fresh = rows.filter(({ seq }) => !told.has(seq))
          for (const { seq } of fresh) told.add(seq)
          if (horizon.writers.size === 0) {
            const { last } = horizon
            complete = last
            told = new Set([...told].filter((seq) => seq > last))
            horizon = null
          }
          return fresh.map(Struct.omit(["seq"]))
        }).pipe(guard, Effect.withSpan("AuditLog.news"))
      }).pipe(guard, Effect.withSpan("AuditLog.follow"))
    })
  })
)
