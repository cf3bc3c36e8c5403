/** `slipway audit`: the security events of keys, grants, people and sessions. */
import { Action, type Actor, type AuditEntry, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Console, DateTime, Duration, Effect, Option, Schedule, Schema, SchemaTransformation } from "effect"
import { Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { Days } from "./Days.ts"

const nameOf = (actor: Actor): string =>
  actor._tag === "Operator" ? "operator" : actor._tag === "System" ? "slipway" : actor._tag === "User" ? actor.userId : `key ${actor.keyId}`

/** The polling interval of `--follow`. */
const LOOK = Duration.millis(500)
/** How long the database may be unavailable while the log is followed. */
const AWAY = Duration.minutes(1)

const shown = ({ action, actor, at, origin, subjects }: AuditEntry) => ({ at: DateTime.formatIso(at), actor, action, subjects, origin })

/** An instant, or a number of days ago. */
const Since = Schema.Union([
  Days,
  Schema.String.check(
    Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/u, { expected: "an instant such as 2026-11-21T00:00:00Z" })
  ).pipe(
    Schema.decodeTo(Schema.DateTimeUtc, SchemaTransformation.dateTimeUtcFromString)
  )
])

const MOST = 100_000
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MOST }))

const rowOf = (entry: AuditEntry): ReadonlyArray<string> => {
  const { action, at, origin, subjects } = shown(entry)
  return [at, nameOf(entry.actor), action, Object.entries({ ...subjects, ...origin }).map(([name, id]) => `${name}=${id}`).join(" ")]
}

/** Prints new entries until the command is interrupted. */
const followed = (matches: (entry: AuditEntry) => boolean, json: boolean) =>
  Effect.gen(function*() {
    const log = yield* AuditLog
    const news = yield* log.follow
    const show = (entry: AuditEntry) => print(json, shown(entry), () => rowOf(entry).join("  "))
    return yield* news.pipe(
      Effect.retry(Schedule.upTo(Schedule.spaced(LOOK), { duration: AWAY })),
      Effect.flatMap((entries) => Effect.forEach(entries.filter(matches), show, { discard: true })),
      Effect.repeat(Schedule.spaced(LOOK)),
      Effect.andThen(Effect.never)
    )
  })

/** Entries of one read of the export. */
const PAGE = 1000

/** Prints every entry, a JSON object a line, as `GET /api/internal/v1/audit` does. */
const exported = Effect.fnUntraced(function*(since: DateTime.Utc | null, matches: (entry: AuditEntry) => boolean) {
  const log = yield* AuditLog
  let after = 0
  for (;;) {
    const page = yield* log.page({ since, after, limit: PAGE })
    for (const { entry, number } of page) {
      if (matches(entry)) yield* Console.log(JSON.stringify({ cursor: String(number), ...shown(entry) }))
      after = number
    }
    if (page.length < PAGE) return
  }
})

export const audit = Command.make("audit", {
  since: Flag.String("since").pipe(
    Flag.withDescription("Oldest entry: days such as 7d, or a time such as 2026-11-21T00:00:00Z"),
    Flag.withSchema(Since),
    Flag.optional
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Number of newest entries"),
    Flag.withSchema(Limit),
    Flag.withDefault(100)
  ),
  action: Flag.Literals("action", Action.literals).pipe(
    Flag.withDescription("Only this action; repeatable"),
    Flag.atLeast(0)
  ),
  subject: Flag.String("subject").pipe(
    Flag.withDescription("Only entries of or about this user, key, grant or organization (id)"),
    Flag.optional
  ),
  follow: Flag.Boolean("follow").pipe(
    Flag.withDescription("Follow new entries until Ctrl-C; with --json one object a line"),
    Flag.withDefault(false)
  ),
  jsonl: Flag.Boolean("jsonl").pipe(
    Flag.withDescription("Export all entries, oldest first, one JSON object a line, whatever --limit says"),
    Flag.withDefault(false)
  ),
  json
}, ({ action, follow, json, jsonl, limit, since: given, subject }) =>
  administration(Effect.gen(function*() {
    const log = yield* AuditLog
    const isAbout = (entry: AuditEntry) =>
      Option.match(subject, {
        onNone: () => true,
        onSome: (id) => [...Object.values(entry.subjects), ...Object.values(entry.actor)].includes(id)
      })
    const matches = (entry: AuditEntry) => (action.length === 0 || action.includes(entry.action)) && isAbout(entry)
    if (follow) return yield* followed(matches, json)
    const now = yield* DateTime.now
    const since = Option.match(given, {
      onNone: () => null,
      onSome: (since) => Duration.isDuration(since) ? DateTime.subtractDuration(now, since) : since
    })
    if (jsonl) return yield* exported(since, matches)
    const entries = (yield* log.list({ since, limit: action.length === 0 && Option.isNone(subject) ? limit : MOST })).filter(matches).slice(
      -limit
    )
    yield* print(json, entries.map(shown), () =>
      entries.length === 0 ? "Nothing happened." : columns([["AT", "WHO", "WHAT", "TO"], ...entries.map(rowOf)]))
  }))).pipe(
    Command.withDescription("Show the audit log of keys, grants, people and sessions, newest last"),
    Command.withExamples([
      { command: "slipway audit --since 7d", description: "What happened in the last week" },
      { command: "slipway audit --limit 1000 --json", description: "For a script" },
      { command: "slipway audit --since 2026-11-01T00:00:00Z --jsonl", description: "An export, one JSON object a line" },
      { command: "slipway audit --follow --action key.minted", description: "Keys as they are made" }
    ])
  )
