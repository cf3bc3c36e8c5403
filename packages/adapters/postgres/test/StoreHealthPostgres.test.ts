/** On a real server with a small disk of its own. */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { StoreHealth } from "@slipway/domain/store/StoreHealth"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as StoreHealthPostgres from "../src/StoreHealthPostgres.ts"
import { database } from "./Stores.ts"

/** Asked after what was known has been forgotten. */
const asked = Effect.gen(function*() {
  yield* TestClock.adjust("3 seconds")
  return yield* yield* StoreHealth
})

describe.skipIf(!SmallDisk.isPossible)("the disk of the database (needs root, to mount)", () => {
  const cases = [
    ["full", "The disk of the database is full."],
    ["out of inodes", "The database cannot write to its disk: it is read-only, out of inodes, or fails."]
  ] as const
  for (const [trouble, sentence] of cases) {
    it.effect(`${trouble}, is told as long as it is; what is known is good for three seconds`, () =>
      Effect.gen(function*() {
        const disk = yield* SmallDisk.make(200)
        const { connection } = yield* TestClock.withLive(Layer.build(EmbeddedPostgres.layer({ dataDir: disk.path }))).pipe(
          Effect.flatMap((context) => Effect.provide(EmbeddedPostgres, context))
        )
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const told = yield* StoreHealth
          // Room in pages that are there: rows are updated whatever the disk is like.
          yield* sql`CREATE TABLE small AS SELECT 1 AS n`
          assert.isNull(yield* asked)
          disk.spoil(trouble)
          assert.isNull(yield* told)
          yield* sql`UPDATE small SET n = n + 1`
          assert.strictEqual(yield* asked, sentence)
          const grown = yield* Effect.flip(sql`CREATE TABLE large AS SELECT repeat(md5(n::text), 60) FROM generate_series(1, 100) n`)
          assert.match(String(grown.reason.cause), /No space left on device/u)
          disk.mend()
          assert.strictEqual(yield* told, sentence)
          assert.isNull(yield* asked)
        }).pipe(Effect.provide(StoreHealthPostgres.layer.pipe(Layer.provideMerge(PgClient.layer(connection)))))
      }).pipe(Effect.scoped))
  }
})

layer(StoreHealthPostgres.layer.pipe(Layer.provideMerge(database())))("a database", (it) => {
  it.effect("that takes no writes is told", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.isNull(yield* asked)
      const { name } = (yield* sql<{ readonly name: string }>`SELECT current_database() AS name`)[0]!
      yield* sql`ALTER DATABASE ${sql(name)} SET default_transaction_read_only = on`
      // Sessions that are there keep what they began with.
      yield* sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${name} AND pid <> pg_backend_pid()`
      yield* Effect.ignore(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
      assert.strictEqual(yield* asked, "The database takes no writes: it is a standby, or read-only.")
    }))

  it.effect("that does not answer is not told: that shows by itself", () =>
    Effect.gen(function*() {
      const unreachable = PgClient.layer({ host: "127.0.0.1", port: 1, connectTimeout: "1 second" })
      const trouble = Layer.fresh(StoreHealthPostgres.layer).pipe(Layer.provide(unreachable))
      assert.isNull(yield* Effect.provide(asked, trouble))
    }))
})
