/**
 * A fresh, migrated database for tests, on the server that `TestPostgresServer` started for this run of vitest.
 *
 * Each copy of the migrated template costs some 20 ms and is dropped at the end.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { createHash, randomUUID } from "node:crypto"
import { inject } from "vitest"

declare module "vitest" {
  interface ProvidedContext {
    readonly testPostgres: {
      /** URL of a database from which others can be made. */
      readonly url: string
      /** Starts the name of every database of this run. */
      readonly prefix: string
    }
  }
}

/** Brings an empty database up to date when it is built. */
type Migrations = Layer.Layer<never, unknown, SqlClient.SqlClient>

const urlOf = (database: string) => {
  const url = new URL(inject("testPostgres").url)
  url.pathname = `/${database}`
  return url.href
}

const client = (url: string, maxConnections?: number) =>
  PgClient.layer({
    url: Redacted.make(url),
    // A busy machine may need more than the default of 5 seconds.
    connectTimeout: "2 minutes",
    startupParameters: { TimeZone: "UTC" },
    maxConnections
  })

const onServer = <A, E>(use: (sql: SqlClient.SqlClient) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.flatMap(SqlClient.SqlClient, use).pipe(Effect.scoped, Effect.provide(client(inject("testPostgres").url, 1)))

/**
 * Every client of a test finds the tables that migrations make, whatever opens it; tests without migrations use `public`. The service's own
 * connections must not count on this: tests of it run on data folders, whose database has no such default.
 */
const findTables = (sql: SqlClient.SqlClient, database: string) => sql`ALTER DATABASE ${sql(database)} SET search_path TO slipway, public`

/** Migrates the template, unless another test file of this run has. */
const template = (migrations: Migrations, name: string) => {
  const { prefix } = inject("testPostgres")
  const database = `${prefix}template_${name}`
  const lock = createHash("sha256").update(database).digest().readInt32BE()
  return onServer((sql) =>
    Effect.gen(function*() {
      // The lock ends with the session, which is this effect's own.
      yield* sql`SELECT pg_advisory_lock(${lock})`
      if ((yield* sql`SELECT FROM pg_database WHERE datname = ${database}`).length > 0) return
      // Migrated under another name: a failure leaves no half-made template for the next file.
      const draft = `${prefix}draft_${randomUUID()}`
      yield* sql`CREATE DATABASE ${sql(draft)}`
      yield* findTables(sql, draft)
      yield* Effect.scoped(Layer.build(migrations.pipe(Layer.provide(client(urlOf(draft), 1)))))
      yield* sql`ALTER DATABASE ${sql(draft)} RENAME TO ${sql(database)}`
    })
  ).pipe(Effect.as(database), Effect.orDie)
}

/**
 * Drops a database with everybody's connections. The server's own cleaning of its tables is a superuser's: FORCE is refused
 * while it is at work, where a plain DROP ends it.
 */
const drop = (database: string) =>
  onServer((sql) => sql`DROP DATABASE IF EXISTS ${sql(database)} WITH (FORCE)`).pipe(
    Effect.catch(() => onServer((sql) => sql`DROP DATABASE IF EXISTS ${sql(database)}`)),
    Effect.retry({ times: 5 }),
    Effect.orDie
  )

/**
 * URL of a fresh database, for processes under test: what they expect as DATABASE_URL. Dropped with the scope, even when
 * somebody is still connected. Migrations that differ from other files' need a `name` of their own, but for none at all.
 */
export const database = (migrations: Migrations, name = migrations === Layer.empty ? "empty" : "slipway") =>
  Effect.gen(function*() {
    const source = yield* template(migrations, name)
    const fresh = `${inject("testPostgres").prefix}${randomUUID()}`
    yield* Effect.acquireRelease(
      Effect.orDie(onServer((sql) => Effect.andThen(sql`CREATE DATABASE ${sql(fresh)} TEMPLATE ${sql(source)}`, findTables(sql, fresh)))),
      () => drop(fresh)
    )
    return urlOf(fresh)
  })

/** A client of a fresh database, one for each time the layer is built. */
export const layer = (migrations: Migrations, name?: string) =>
  Layer.unwrap(Effect.map(database(migrations, name), (url) => client(url))).pipe(Layer.orDie)
