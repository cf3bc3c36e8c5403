import { PgClient } from "@effect/sql-pg"
import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as TestPostgres from "../testing/TestPostgres.ts"

let migrated = 0
const migrations = Layer.effectDiscard(
  Effect.gen(function*() {
    migrated++
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE TABLE boats (name text PRIMARY KEY)`
  })
)

const launch = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO boats VALUES ('Fram')`
  return yield* sql`SELECT name FROM boats`
})

layer(TestPostgres.layer(migrations, "boats"))("a test file", (it) => {
  it.effect("starts from a migrated, empty database", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* launch, [{ name: "Fram" }])
    }))
})

it.effect("many test files at once get databases of their own from one migration", () =>
  Effect.gen(function*() {
    const found = yield* Effect.all(
      Array.from({ length: 8 }, () => Effect.provide(launch, TestPostgres.layer(migrations, "fleet"))),
      { concurrency: "unbounded" }
    )
    assert.deepStrictEqual(found, Array.from({ length: 8 }, () => [{ name: "Fram" }]))
    assert.isAtMost(migrated, 2)
  }))

it.effect("a process under test is given a URL, and the database goes with the scope", () =>
  Effect.gen(function*() {
    const url = yield* Effect.scoped(Effect.gen(function*() {
      const url = yield* TestPostgres.database(migrations, "boats")
      assert.deepStrictEqual(yield* Effect.provide(launch, PgClient.layer({ url: Redacted.make(url) })), [{ name: "Fram" }])
      return url
    }))
    const error = yield* Effect.flip(Effect.provide(launch, PgClient.layer({ url: Redacted.make(url) })))
    assert.include(String(error.cause.cause), "does not exist")
  }))
