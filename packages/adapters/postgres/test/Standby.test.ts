/** A database that is a standby, as its service meets it between the loss of the primary and the promotion. */
import { assert, it } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as PostgresCluster from "@slipway/embedded-postgres/testing/PostgresCluster"
import { Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { chownSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as Database from "../src/Database.ts"
import * as Migrations from "../src/Migrations.ts"
import { guard } from "../src/sql/SqlFailure.ts"

it.live("is unavailable for what is written and for tables that it has not, until it is promoted", () =>
  Effect.gen(function*() {
    const home = yield* PostgresCluster.home
    const data = path.join(home.folder, "standby")
    yield* PostgresCluster.initialise(home, data)
    const server = yield* PostgresCluster.cluster(home, data)
    const url = Redacted.make(`postgres://slipway@127.0.0.1:${server.port}/postgres?sslmode=disable`)
    const up = Effect.andThen(server.start, Database.reach(url, Duration.minutes(1)))
    yield* up
    yield* Effect.scoped(Layer.build(Migrations.layer.pipe(Layer.provide(Database.layerMigrating({ url })))))
    yield* server.end("SIGINT")
    const signal = path.join(data, "standby.signal")
    writeFileSync(signal, "")
    if (home.account !== null) chownSync(signal, home.account.uid, home.account.gid)
    yield* up
    yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const reads = (yield* Database.Reads) ?? sql
      const unlogged = yield* sql<
        { readonly name: string }
      >`SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'`
      assert.isAbove(unlogged.length, 2)
      const statements = [
        ...unlogged.flatMap(({ name }) => [sql, reads].map((client) => client`SELECT count(*) FROM ${client(name)}`)),
        ...unlogged.map(({ name }) => sql`DELETE FROM ${sql(name)}`),
        sql`INSERT INTO drained_machines (machine, at) VALUES ('machine-1', now())`,
        sql`SELECT FROM sandboxes FOR UPDATE`
      ]
      for (const statement of statements) assert.instanceOf(yield* Effect.flip(guard(statement)), StoreUnavailable)
      yield* sql`SELECT pg_promote(true)`
      yield* Effect.forEach(statements, guard)
    }).pipe(Effect.provide(Database.layer({ url })))
  }).pipe(Effect.scoped))
