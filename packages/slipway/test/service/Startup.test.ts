import { assert, it } from "@effect/vitest"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SilentNetwork from "@slipway/adapters/testing/SilentNetwork"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Effect, Fiber } from "effect"
import { folder, run, serve, until } from "../commands/SlipwayProcess.ts"

it.live("a service that starts before its database waits for it, and says so once", () =>
  Effect.gen(function*() {
    const network = yield* SilentNetwork.make(yield* TestPostgres.database(Migrations.layer))
    yield* network.silence
    const starting = yield* Effect.forkChild(serve(yield* folder, { DATABASE_URL: network.url }))
    // It has tried more than once.
    const tries = new Set<unknown>()
    yield* until(Effect.sync(() => network.open().forEach((socket) => tries.add(socket))), () => tries.size > 1)
    yield* network.restore
    const { logs, stop, url } = yield* Fiber.join(starting)
    assert.strictEqual((yield* Effect.promise(() => fetch(`${url}/readyz`))).status, 200)
    assert.strictEqual(logs().split("does not answer yet").length, 2)
    assert.deepStrictEqual(yield* stop("SIGTERM"), { code: 0, signal: null })
  }).pipe(Effect.scoped))

it.live("one whose database does not come gives up with a line that names it, and not its password", () =>
  Effect.gen(function*() {
    // Nobody listens on port 1.
    const settings = {
      DATABASE_URL: "postgres://slipway:canary-password@127.0.0.1:1/shop",
      SLIPWAY_STARTUP_SECONDS: "1",
      SLIPWAY_LOG_FORMAT: "pretty"
    }
    const { code, stderr, stdout } = yield* run(yield* folder, ["serve"], settings)
    assert.strictEqual(code, 1)
    assert.match(stderr, /The database at 127\.0\.0\.1:1\/shop cannot be used: .*ECONNREFUSED.*\. Start it, or check DATABASE_URL\./u)
    assert.notMatch(stderr + stdout, /canary-password|\n +at /u)
  }).pipe(Effect.scoped))
