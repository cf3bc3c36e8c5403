/** `AuditLog` on Postgres: a table that nothing changes but by adding to it. */
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Acting, ActingFrom, Action, Actor, AuditLog, Origin } from "@slipway/domain/access/AuditLog"
import { guard } from "./SqlFailure.ts"

const EntryRow = Schema.Struct({
  action: Action,
  at: Schema.DateTimeUtcFromDate,
  subjects: Schema.Record(Schema.String, Schema.String),
  actor: Actor,
  origin: Schema.NullOr(Origin)
})

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
          execute: ({ limit, since }) => sql`
            SELECT action, at, subjects, actor, origin FROM audit_log
            WHERE at >= coalesce(${since}::timestamptz, '-infinity') ORDER BY seq DESC LIMIT ${limit}`
        })({ since: since === null ? null : DateTime.formatIso(since), limit })
        return newestFirst.toReversed()
      }, guard)
    })
  })
)
