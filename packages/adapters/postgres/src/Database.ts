/** Connections to Postgres, with the session settings our statements count on. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Connecting from "./connection/Connecting.ts"
import { UnusableUrl } from "./connection/ConnectionUrl.ts"
import type { DatabaseLocation } from "./connection/DatabaseLocation.ts"
import type { Settings } from "./connection/SessionSettings.ts"
import { DatabaseSchema } from "./options/DatabaseSchema.ts"
import { OptionNames } from "./options/OptionNames.ts"
import { Reads, Renewals } from "./sql/Clients.ts"
import { AnswerMillis, passes } from "./sql/SqlFailure.ts"

export type { DatabaseLocation }
export { Reads, Renewals }

/** Statements that share a connection before another one is opened. */
const SHARING = 8

interface Patience {
  readonly connect: Duration.Duration
  /** How long a request waits for another one's lock before it is told to come again (docs/decisions/4). */
  readonly lock: Duration.Duration
  /** How long a statement may take before Postgres cancels it. */
  readonly statement: Duration.Duration
  /** A server that is silent for longer than any statement may take does not answer any more: its connection is thrown away. */
  readonly silence: Duration.Duration | null
}

/** Each is shorter than the next, and all are over before a caller is answered, after `answer` milliseconds. */
const patienceOf = (answer: number): Patience => ({
  connect: Duration.millis(answer - 6_000),
  lock: Duration.millis(answer - 4_000),
  statement: Duration.millis(answer - 2_000),
  silence: Duration.millis(answer - 1_000)
})

const PATIENCE = patienceOf(AnswerMillis.defaultValue())

const shared = (location: DatabaseLocation, { connect, silence }: Pick<Patience, "connect" | "silence">, settings: Settings = {}) => ({
  applicationName: "slipway",
  connectTimeout: connect,
  // Poolers know this one.
  startupParameters: { TimeZone: "UTC" },
  ...Connecting.configOf(location, silence, settings)
} as const)

/** Connections of a process, by what they are for: docs/operating/database.md has their sum. */
const CONNECTIONS = { writing: 10, reading: 4, renewals: 1 }

/** Pools for writing, for reading and for the renewal of leases. */
export const layer = (location: DatabaseLocation, { reading = CONNECTIONS.reading, writing = CONNECTIONS.writing } = {}) =>
  Layer.unwrap(Effect.gen(function*() {
    const patience = patienceOf(yield* AnswerMillis)
    const settings = {
      lock_timeout: `${Duration.toMillis(patience.lock)}ms`,
      statement_timeout: `${Duration.toMillis(patience.statement)}ms`,
      search_path: yield* DatabaseSchema
    }
    const config = shared(location, patience, settings)
    return Layer.mergeAll(
      PgClient.layer({ ...config, maxConnections: writing }),
      Layer.effect(Reads, SqlClient).pipe(
        Layer.provide(PgClient.layer({
          ...shared(location, patience, { ...settings, plan_cache_mode: "force_generic_plan" }),
          maxConnections: reading,
          multiplex: true,
          multiplexConcurrency: SHARING
        }))
      ),
      // Opened with the first renewal, so only workers have it.
      Layer.effect(Renewals, SqlClient).pipe(Layer.provide(PgClient.layer({ ...config, maxConnections: CONNECTIONS.renewals })))
    )
  }))

/** One connection for changes of the schema, which take as long as the tables are large. */
export const layerMigrating = (location: DatabaseLocation) =>
  Layer.unwrap(
    Effect.map(DatabaseSchema, (schema) =>
      PgClient.layer({ ...shared(location, { ...PATIENCE, silence: null }, { search_path: schema }), maxConnections: 1 }))
  )

/** The database cannot be used. */
export class DatabaseUnreachable extends Schema.TaggedError<DatabaseUnreachable>()("DatabaseUnreachable", {
  /** Host, port and database. Neither user nor password. */
  at: Schema.String,
  /** In Postgres' or the system's words. */
  reason: Schema.String,
  /** The name of the option with the address: see {@link OptionNames}. */
  option: Schema.String
}) {
  override get message() {
    return `The database at ${this.at} cannot be used: ${this.reason}. Start it, or check ${this.option}.`
  }
}

const innermost = (error: SqlError): unknown => {
  let cause: unknown = error
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  return cause
}

/** Messages of the driver that do not say what to do. */
const SAID: Readonly<Record<string, string>> = {
  "The server requested password authentication":
    "the server asks for a password: write it into the URL, percent-encoded (PGPASSWORD and ~/.pgpass are not read)"
}

/** The error's own message, without the driver's wrapping. */
const reasonOf = (error: SqlError): string => {
  const cause = innermost(error)
  const causes = cause instanceof AggregateError ? cause.errors : [cause]
  return causes.map((each) => each instanceof Error ? SAID[each.message] ?? each.message : String(each)).join("; ")
}

/** Whether waiting may help. */
const mayAnswer = (error: SqlError) => passes(error) && !(innermost(error) instanceof UnusableUrl)

const ROLE = "SELECT rolsuper AS superuser FROM pg_roles WHERE rolname = current_user"

/** A pooler that lends by transaction loses the settings of a session after each transaction. */
const BY_TRANSACTION = "a pooler lends its connections by transaction or statement. Slipway needs its sessions: pool_mode = session"

/**
 * Whether the connection of a session is another one while another session is in a transaction. A pooler that lends by statement ends the
 * other session instead.
 */
const isByTransaction = Effect.fnUntraced(function*(session: PgConnection.PgConnection, other: PgConnection.PgConnection) {
  const backendOf = (one: PgConnection.PgConnection) =>
    Effect.map(one.query("SELECT pg_backend_pid() AS pid"), ({ rows: [row] }) => Number(row?.["pid"]))
  const before = yield* backendOf(session)
  const begun = yield* Effect.result(other.query("BEGIN"))
  if (Result.isFailure(begun)) {
    // A server that goes away ends both.
    yield* Effect.mapError(backendOf(session), () => begun.failure)
    return true
  }
  const [others, after] = [yield* backendOf(other), yield* backendOf(session)]
  yield* other.query("ROLLBACK")
  return before !== after || before === others
})

/** How long a connection may take while a process finds out whether it gets all that it uses. */
const EACH = Duration.seconds(3)

/** How many connections of so many answer while the others are open. */
const answering = (location: DatabaseLocation, count: number) =>
  Effect.forEach(
    Array.from({ length: count }),
    () =>
      Effect.flatMap(PgConnection.make(shared(location, PATIENCE)), (session) => session.query("SELECT 1")).pipe(
        Effect.timeoutOption(EACH),
        Effect.map(Option.isSome),
        Effect.catch(() => Effect.succeed(false))
      ),
    { concurrency: "unbounded" }
  ).pipe(Effect.map((all) => all.filter(Boolean).length), Effect.scoped)

/**
 * Waits for a database that does not answer yet because it or its machine starts. It does not wait for a database that refuses the
 * login, nor for a pooler that lends connections by transaction. `all`: whether the caller uses all {@link CONNECTIONS}; a database
 * that has fewer for it is waited for. Fails with `DatabaseUnreachable` after `patience`. Says whether the role may do anything on its
 * server.
 */
export const reach = Effect.fn("Database.reach")(function*(url: Redacted.Redacted, patience: Duration.Duration, all = false) {
  const at = Connecting.placeOf(url)
  const connect = PgConnection.make(shared({ url }, PATIENCE))
  const look = Effect.scoped(Effect.gen(function*() {
    const session = yield* connect
    const { rows } = yield* session.query(ROLE)
    const byTransaction = yield* isByTransaction(session, yield* connect)
    return { superuser: rows.some(({ superuser }) => superuser === true), byTransaction }
  }))
  const option = (yield* OptionNames)("databaseUrl")
  const refuse = (error: SqlError) => new DatabaseUnreachable({ at, reason: reasonOf(error), option })
  const began = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
  const found = yield* look.pipe(
    Effect.catch((first) =>
      !mayAnswer(first) || Duration.isZero(patience) ? refuse(first) : Effect.gen(function*() {
        yield* Effect.logWarning(
          `the database at ${at} does not answer yet (${reasonOf(first)}): waiting for it up to ${Duration.format(patience)}`
        )
        const found = yield* look.pipe(
          Effect.retry({
            while: (error) =>
              Effect.clockWith((clock) =>
                Effect.map(clock.currentTimeMillis, (now) => mayAnswer(error) && now - began < Duration.toMillis(patience))
              ),
            schedule: Schedule.spaced("500 millis")
          }),
          Effect.mapError(refuse)
        )
        yield* Effect.logInfo(`the database at ${at} answers`)
        return found
      })
    )
  )
  if (found.byTransaction) return yield* new DatabaseUnreachable({ at, reason: BY_TRANSACTION, option })
  const wanted = Object.values(CONNECTIONS).reduce((sum, count) => sum + count, 0)
  for (; all;) {
    const count = yield* answering({ url }, wanted)
    if (count === wanted) break
    const reason = `it has ${count} connections for this process, which uses up to ${wanted}`
    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    if (now - began >= Duration.toMillis(patience)) return yield* new DatabaseUnreachable({ at, reason, option })
    yield* Effect.logWarning(`the database at ${at} cannot be used yet: ${reason}`)
    yield* Effect.sleep("1 second")
  }
  return found
})
