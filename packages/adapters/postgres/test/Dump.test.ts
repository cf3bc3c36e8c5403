/** A dump beside a change of the schema. `slipway backup` and `restore` have tests of their own. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as Dump from "../src/Dump.ts"
import * as Migrations from "../src/Migrations.ts"

/** Until somebody waits for a lock of this table. */
const isAwaited = (table: string) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    for (;;) {
      const [row] = yield* sql<{ readonly waits: boolean }>`
        SELECT EXISTS (SELECT FROM pg_locks WHERE relation = ${table}::regclass AND NOT granted) AS waits`
      if (row?.waits === true) return
    }
  })

it.live("is all of one schema, also where a migration is under way when it begins", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`INSERT INTO drained_machines (machine, at) VALUES ('machine-1', now())`
    const altered = yield* Deferred.make<void>()
    const migrating = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
      yield* sql`ALTER TABLE drained_machines ADD COLUMN why text NOT NULL DEFAULT 'moved'`
      yield* sql`CREATE TABLE later (id text PRIMARY KEY)`
      yield* sql`INSERT INTO later VALUES ('one')`
      yield* Deferred.succeed(altered, undefined)
      yield* isAwaited("drained_machines")
    })))
    yield* Deferred.await(altered)
    const rows = new Map<string, ReadonlyArray<string>>()
    const columns = new Map<string, ReadonlyArray<string>>()
    yield* Dump.read((table, pieces) =>
      Effect.gen(function*() {
        rows.set(table.name, (yield* Stream.runCollect(pieces)).flat())
        columns.set(table.name, table.columns)
      })
    )
    yield* Fiber.join(migrating)
    assert.deepStrictEqual(columns.get("drained_machines"), ["machine", "at", "why"])
    assert.match(rows.get("drained_machines")?.[0] ?? "", /^\(machine-1,.*,moved\)$/u)
    assert.deepStrictEqual(rows.get("later"), ["(one)"])
  }).pipe(Effect.provide(TestPostgres.layer(Migrations.layer))))
