/** A dump beside a change of the schema. `slipway backup` and `restore` have tests of their own. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as Dump from "../src/Dump.ts"
import * as Migrations from "../src/Migrations.ts"
import * as Earlier from "./Earlier.ts"
import { database } from "./Stores.ts"

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
  }).pipe(Effect.provide(database())))

/** A backup in memory. */
const kept = Effect.gen(function*() {
  const rows = new Map<string, ReadonlyArray<string>>()
  const tables: Array<Dump.Table> = []
  const read = yield* Dump.read((table, pieces) =>
    Effect.gen(function*() {
      tables.push(table)
      rows.set(table.name, (yield* Stream.runCollect(pieces)).flat())
    })
  )
  return { rows, wanted: { ...read, tables } }
})

describe.each([...Earlier.VERSIONS, ...Earlier.WITH_SCHEMA])("a backup of the version with migration %s", (version) => {
  it.live("is read before the upgrade, and loads as the upgrade leaves the database", () =>
    Effect.gen(function*() {
      const [old, empty] = [yield* Earlier.database(version), yield* TestPostgres.database(Layer.empty)]
      const { rows, wanted } = yield* kept.pipe(Earlier.connected(old))
      assert.deepStrictEqual(wanted.migrations.at(-1)?.slice(0, 4), version)
      const upgraded = yield* Effect.andThen(Migrations.run, Earlier.rowsIn("slipway")).pipe(Earlier.connected(old))
      const loaded = yield* Dump.load(wanted, ({ name }) => Stream.make(rows.get(name) ?? [])).pipe(
        Effect.andThen(Earlier.rowsIn("slipway")),
        Earlier.connected(empty)
      )
      // Unlogged tables are not in a backup. After a load no machine has anything of a sandbox.
      const others = ["drained_machines", "rate_windows", "worker_links", "worker_offers", "worker_rooms"]
      const compared = (all: typeof loaded) =>
        Object.fromEntries(
          Object.entries(all).filter(([name]) => !others.includes(name)).map((
            [name, found]
          ) => [name, found.map((row) => ({ ...row, lease_until: null }))])
        )
      assert.deepStrictEqual(compared(loaded), compared(upgraded))
    }))
})

it.live("refuses a backup with other columns than its version has", () =>
  Effect.gen(function*() {
    const [source, empty] = [yield* TestPostgres.database(Migrations.layer), yield* TestPostgres.database(Layer.empty)]
    const { wanted } = yield* kept.pipe(Earlier.connected(source))
    assert.deepStrictEqual(wanted.migrations, ["0061_schema", "0062_additions", "0063_feedback_and_automations",
      "0064_files_tools_questions", "0065_several_hosts", "0066_artifacts", "0067_preview_tickets"])
    assert.isTrue(Dump.isKnown(wanted.migrations))
    for (const others of [[], ["0001_sandboxes"], [...wanted.migrations, "0067_later"]]) assert.isFalse(Dump.isKnown(others))
    const [first, ...rest] = wanted.tables
    const { columns = [], name = "" } = first ?? {}
    const changes = [[{ name, columns: columns.slice(0, -1) }, ...rest], [{ name, columns: columns.toReversed() }, ...rest], rest, [
      ...wanted.tables,
      { name: "later", columns: ["id"] }
    ]]
    for (const tables of changes) {
      const refused = yield* Effect.flip(Dump.load({ ...wanted, tables }, () => Stream.empty)).pipe(Earlier.connected(empty))
      assert.strictEqual(refused._tag, "OtherSchema")
    }
  }))
