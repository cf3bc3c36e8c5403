/** `AuditLog` over the statements of a database. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Acting, ActingFrom, Action, Actor, AuditLog, Origin, type SecurityEvent } from "../../access/ports/AuditLog.ts"
import { guard } from "./Rows.ts"
import type { AuditRow, Statements } from "./Statements.ts"

const Entry = Schema.fromJsonString(Schema.Struct({
  action: Action,
  at: Schema.DateTimeUtcFromString,
  subjects: Schema.Record(Schema.String, Schema.String),
  actor: Actor,
  origin: Schema.NullOr(Origin)
}))
const encode = Schema.encodeSync(Entry)
const decode = Schema.decodeUnknownSync(Entry)
const entryOf = ({ entry }: AuditRow) => decode(entry)

/** Appends within the transaction that is open. */
export const append = Effect.fnUntraced(function*({ save }: Statements, events: ReadonlyArray<SecurityEvent>) {
  if (events.length === 0) return
  const by = { actor: yield* Acting, origin: yield* ActingFrom }
  yield* save("audit", events.map((event) => ({ at: event.at.epochMilliseconds, entry: encode({ ...event, ...by }) })))
})

/** `AuditLog` over these statements. */
export const make = (statements: Statements): AuditLog["Service"] => {
  const guarded = guard(statements)
  return AuditLog.of({
    append: (events) => guarded(statements.transaction(append(statements, events))),
    list: ({ limit, since }) =>
      guarded(statements.audit(since === null ? null : DateTime.toEpochMillis(since), limit)).pipe(
        Effect.map((rows) => rows.map(entryOf).reverse())
      ),
    page: ({ after, limit, since }) =>
      Effect.map(
        guarded(Effect.suspend(() => statements.auditAfter(after))),
        (rows) =>
          rows.map((row) => ({ number: row.seq, entry: entryOf(row) })).filter(({ entry: { at } }) =>
            since === null || DateTime.isGreaterThanOrEqualTo(at, since)
          ).slice(0, limit)
      ),
    follow: guarded(statements.audit(null, 1)).pipe(Effect.map(([newest]) => {
      let told = newest?.seq ?? 0
      return Effect.map(guarded(Effect.suspend(() => statements.auditAfter(told))), (rows) => {
        told = rows.at(-1)?.seq ?? told
        return rows.map(entryOf)
      })
    }))
  })
}
