import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { rmSync } from "node:fs"
import { createServer } from "node:net"
import path from "node:path"
import { folder, runIn, serve } from "../../commands/SlipwayProcess.ts"

const LONG = 300_000
/** More than any command waits, and less than a test does. */
const PATIENCE = "45 seconds"

const ended = (data: string, args: ReadonlyArray<string>, settings: Readonly<Record<string, string>> = {}) =>
  Effect.timeoutOrElse(runIn(data, args, settings), { duration: PATIENCE, orElse: () => Effect.die(`${args.join(" ")} does not end`) })

describe("a command", () => {
  it.live("gives up a server of the data folder that cannot be reached any more, and says what to do", () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* serve(data, { SLIPWAY_ISOLATION: "none" })
      // As a server has it that is about to stop.
      rmSync(path.join(data, "postgres/cluster/.s.PGSQL.5432"))
      const { code, stderr, stdout } = yield* ended(data, ["keys", "revoke", "00000000-0000-7000-8000-000000000000"])
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^slipway: The server over [^\n]* did not answer within 15 seconds\. [^\n]*try again[^\n]*\n$/u)
    }).pipe(Effect.scoped), LONG)

  it.live("gives up a database that another process does something to, and says what to do", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const url = yield* TestPostgres.database(Migrations.layer)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`LOCK TABLE effect_sql_migrations IN ACCESS EXCLUSIVE MODE`
          const { code, stderr, stdout } = yield* ended(data, ["keys", "list"], { DATABASE_URL: url })
          assert.deepStrictEqual([code, stdout], [1, ""])
          assert.match(stderr, /^slipway: the database that DATABASE_URL names is not ready after 20s, [^\n]*try again[^\n]*\n$/u)
        }))
      }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url) })))
      assert.strictEqual((yield* ended(data, ["keys", "list"], { DATABASE_URL: url })).code, 0)
    }).pipe(Effect.scoped), LONG)

  it.live("gives up a server that takes connections and answers nothing", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const silent = createServer(() => {})
      yield* Effect.acquireRelease(
        Effect.promise(() => new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))),
        () => Effect.sync(() => silent.close())
      )
      const address = silent.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const { code, stderr } = yield* ended(data, ["ps", "--url", `http://127.0.0.1:${port}`], { SLIPWAY_API_KEY: "sbx_live_none" })
      assert.strictEqual(code, 7)
      assert.match(stderr, /^slipway: nothing answers at http:[^\n]*Does it run[^\n]*\n$/u)
    }).pipe(Effect.scoped), LONG)
})
