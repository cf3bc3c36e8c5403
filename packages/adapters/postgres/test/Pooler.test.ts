/** A database behind PgBouncer, which is not the same to a session as Postgres itself. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as ConnectionUrl from "../src/connection/ConnectionUrl.ts"
import * as Database from "../src/Database.ts"

const program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].find((file) => spawnSync(file, ["--version"]).status === 0)

/** The address of a fresh database behind a pooler of this mode and size. */
const pooled = (mode: "session" | "transaction", size: number) =>
  Effect.gen(function*() {
    // The server's socket is open to few users, and the pooler does not run as root.
    const { url } = yield* SilentNetwork.make(yield* TestPostgres.database(Layer.empty))
    const parsed = ConnectionUrl.parse(url)
    if (parsed._tag === "Failure") return assert.fail("the address of the test's database cannot be read")
    const { database, host, password, port, username } = parsed.success
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-pooler-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
    )
    const secret = password === null ? "" : ` password='${password}'`
    writeFileSync(
      path.join(folder, "pgbouncer.ini"),
      `[databases]\npooled = host=${host} port=${port} dbname=${database} user=${username}${secret}\n[pgbouncer]\n` +
        `unix_socket_dir = ${folder}\nlisten_port = 6432\nauth_type = any\npool_mode = ${mode}\ndefault_pool_size = ${size}\n`
    )
    chmodSync(folder, 0o777)
    const pooler = yield* SpawnedProgram.scoped(
      program ?? "",
      [path.join(folder, "pgbouncer.ini")],
      process.getuid?.() === 0 ? { uid: 65_534 } : {}
    )
    yield* Effect.promise(() => pooler.says((output) => /process up/u.exec(output)))
    return Redacted.make(`postgres://slipway@localhost:6432/pooled?host=${encodeURIComponent(folder)}`)
  })

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
