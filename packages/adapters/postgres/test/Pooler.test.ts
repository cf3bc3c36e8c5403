/** A database behind PgBouncer, which is not the same to a session as Postgres itself. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../src/Database.ts"
import { pooled, program } from "./PgBouncer.ts"

describe.skipIf(program === undefined)("behind PgBouncer (needs pgbouncer: apt-get install pgbouncer)", () => {
  it.live("sessions have their settings, where each has a connection of its own", () =>
    Effect.gen(function*() {
      const url = yield* pooled("session", 20)
      assert.isFalse((yield* Database.reach(url, Duration.seconds(10), true)).byTransaction)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const settings = (client: SqlClient.SqlClient) =>
          Effect.map(
            client<Record<string, string>>`
              SELECT current_setting('lock_timeout') AS locks, current_setting('statement_timeout') AS statements,
                current_setting('plan_cache_mode') AS plans, current_setting('TimeZone') AS zone,
                current_setting('search_path') AS path`,
            ([row]) => row
          )
        const own = { locks: "5s", statements: "7s", plans: "auto", zone: "UTC", path: "slipway" }
        assert.deepStrictEqual(yield* settings(sql), own)
        assert.deepStrictEqual(yield* settings((yield* Database.Reads) ?? sql), { ...own, plans: "force_generic_plan" })
      }).pipe(Effect.provide(Database.layer({ url })))
    }).pipe(Effect.scoped))

  it.live("a pooler that lends its connections by transaction is refused in words", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Database.reach(yield* pooled("transaction", 20), Duration.minutes(1)))
      assert.match(error.message, /by transaction.*pool_mode = session/u)
    }).pipe(Effect.scoped))

  it.live("one with too few connections is refused with how many there are to be", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Database.reach(yield* pooled("session", 4), Duration.zero, true))
      assert.match(error.message, /it has 4 connections for this process, which uses up to 15/u)
    }).pipe(Effect.scoped))
})
