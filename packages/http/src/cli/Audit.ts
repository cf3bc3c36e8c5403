/** `slipway audit`: what happened to keys, grants, people and sessions. */
import { DateTime, Duration, Effect, Option, Schema, SchemaTransformation } from "effect"
import { Command, Flag } from "effect/cli"
import { type Actor, type AuditEntry, AuditLog } from "@slipway/domain/access/AuditLog"
import { administration, json } from "./Administration.ts"
import { Days } from "./Days.ts"
import { columns, print } from "./Output.ts"

const nameOf = (actor: Actor): string =>
  actor._tag === "Operator" ? "operator" : actor._tag === "System" ? "slipway" : actor._tag === "User" ? actor.userId : `key ${actor.keyId}`

const shown = ({ action, actor, at, subjects }: AuditEntry) => ({ at: DateTime.formatIso(at), actor, action, subjects })

/** An instant, or how many days ago. */
const Since = Schema.Union([
  Days,
  Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/u, { expected: "an instant such as 2026-11-21T00:00:00Z" })).pipe(
    Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)
  )
])

const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))

export const audit = Command.make("audit", {
  since: Flag.String("since").pipe(
    Flag.withDescription("Nothing older: days such as 7d, or an instant such as 2026-11-21T00:00:00Z"),
    Flag.withSchema(Since),
    Flag.optional
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("How many entries at most: the newest"),
    Flag.withSchema(Limit),
    Flag.withDefault(100)
  ),
  json
}, ({ json, limit, since: given }) =>
  administration(Effect.gen(function*() {
    const log = yield* AuditLog
    const now = yield* DateTime.now
    const since = Option.match(given, {
      onNone: () => null,
      onSome: (since) => Duration.isDuration(since) ? DateTime.subtractDuration(now, since) : since
    })
    const entries = yield* log.list({ since, limit })
    yield* print(json, entries.map(shown), () =>
      entries.length === 0 ? "Nothing happened." : columns([
        ["AT", "WHO", "WHAT", "TO"],
        ...entries.map((entry) => {
          const { action, at, subjects } = shown(entry)
          return [at, nameOf(entry.actor), action, Object.entries(subjects).map(([name, id]) => `${name}=${id}`).join(" ")]
        })
      ]))
  }))).pipe(
    Command.withDescription("Show the audit log of keys, grants, people and sessions, newest last"),
    Command.withExamples([
      { command: "slipway audit --since 7d", description: "What happened in the last week" },
      { command: "slipway audit --limit 1000 --json", description: "For a script" }
    ])
  )
