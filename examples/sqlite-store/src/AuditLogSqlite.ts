/** `AuditLog` on SQLite. Stores append to it within their own transactions, by `appendTo`. */
import {
  Acting,
  ActingFrom,
  Action,
  Actor,
  type AuditEntry,
  AuditLog,
  Origin,
  type SecurityEvent
} from "@slipway/domain/access/ports/AuditLog"
import { Effect, Layer, Result, Schema } from "effect"
import { Database, type Sql } from "./Database.ts"

const Entry = Schema.fromJsonString(Schema.Struct({
  action: Action,
  at: Schema.DateTimeUtcFromString,
  subjects: Schema.Record(Schema.String, Schema.String),
  actor: Actor,
  origin: Schema.NullOr(Origin)
}))
const encode = Schema.encodeSync(Entry)
const decode = Schema.decodeUnknownSync(Entry)

/** On whose behalf the fiber runs, and by which request. */
export const author = Effect.all({ actor: Acting, origin: ActingFrom })

export const appendTo = (sql: Sql, events: ReadonlyArray<SecurityEvent>, by: Pick<AuditEntry, "actor" | "origin">): void => {
  for (const event of events) {
    sql.run("INSERT INTO audit_log (at, entry) VALUES (:at, :entry)", {
      at: event.at.epochMilliseconds,
      entry: encode({ ...event, ...by })
    })
  }
}

export const layer = Layer.effect(
  AuditLog,
  Effect.map(Database, (database) => {
    const newest = database.read((sql) => Number(sql.get("SELECT max(seq) AS seq FROM audit_log")?.["seq"] ?? 0))
    return AuditLog.of({
      append: (events) => Effect.flatMap(author, (by) => database.write((sql) => Result.succeed(appendTo(sql, events, by)))),

      list: ({ limit, since }) =>
        database.read((sql) =>
          sql.all(
            "SELECT entry FROM audit_log WHERE :since IS NULL OR at >= :since ORDER BY seq DESC LIMIT :limit",
            { since: since?.epochMilliseconds ?? null, limit }
          ).map(({ entry }) => decode(entry)).reverse()
        ),

      // Transactions come one after the other, so a later entry never has a lower number.
      follow: Effect.map(newest, (told) =>
        database.read((sql) => {
          const rows = sql.all("SELECT seq, entry FROM audit_log WHERE seq > :told ORDER BY seq", { told })
          told = Number(rows.at(-1)?.["seq"] ?? told)
          return rows.map(({ entry }) => decode(entry))
        }))
    })
  })
)
