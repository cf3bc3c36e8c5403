import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Mounts from "@slipway/machine/testing/Mounts"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Fiber } from "effect"
import { spawnSync } from "node:child_process"
import { chmodSync, copyFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { command, environment, folder, freePort, processesOf, run, serve, until } from "../../commands/SlipwayProcess.ts"

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
    // Port 1 has no listener.
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

const bwrap = spawnSync("sh", ["-c", "command -v bwrap"], { encoding: "utf8" }).stdout.trim()
const mayMount = spawnSync("unshare", ["--mount", "true"]).status === 0

/** A service where no box comes up before `open` is called. */
const withSlowBoxes = Effect.gen(function*() {
  const [data, tools] = [yield* folder, yield* folder]
  const [real, slow, gate] = [path.join(tools, "bwrap"), path.join(tools, "slow"), path.join(tools, "gate")]
  // The users of boxes pass.
  chmodSync(tools, 0o755)
  copyFileSync(bwrap, real)
  writeFileSync(slow, `#!/bin/sh\nuntil [ -e ${gate} ]; do sleep 0.02; done\nexec ${real} "$@"\n`, { mode: 0o755 })
  const port = yield* freePort
  const args = ["--mount", "--propagation", "private", "sh", "-c", `mount -o bind "$0" ${bwrap} && exec "$@"`, slow, process.execPath,
    command, "serve"]
  const env = environment(data, { SLIPWAY_PORT: `${port}`, SLIPWAY_ISOLATION: "auto" })
  const { child, ended } = yield* SpawnedProgram.scoped("unshare", args, { env, cwd: data })
  const readiness = Effect.promise(() =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(async (reply) => ({ status: reply.status, body: await reply.json() }), () => null)
  )
  const tellToStop = Effect.sync(() => child.kill("SIGTERM"))
  return {
    data,
    readiness,
    tellToStop,
    ended: Effect.promise(async () => (await ended).code),
    open: Effect.sync(() => writeFileSync(gate, ""))
  }
})

const starting = { status: 200, body: { status: "ok", problem: "The worker is starting." } }
const ready = { status: 200, body: { status: "ok" } }

it.live.skipIf(bwrap === "" || !mayMount)(
  "answers requests while its boxes are looked at, and says that its worker is starting (needs root and bubblewrap)",
  () =>
    Effect.gen(function*() {
      const { data, ended, open, readiness, tellToStop } = yield* withSlowBoxes
      assert.deepStrictEqual(yield* until(readiness, (answer) => answer !== null), starting)
      yield* open
      assert.deepStrictEqual(yield* until(readiness, (answer) => answer?.body.problem === undefined), ready)
      yield* tellToStop
      assert.strictEqual(yield* ended, 0)
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped)
)

it.live.skipIf(bwrap === "" || !mayMount)(
  "leaves nothing behind when it is told to stop while its boxes are looked at (needs root and bubblewrap)",
  () =>
    Effect.gen(function*() {
      const { data, ended, open, readiness, tellToStop } = yield* withSlowBoxes
      yield* until(readiness, (answer) => answer !== null)
      yield* tellToStop
      yield* open
      assert.strictEqual(yield* ended, 0)
      assert.deepStrictEqual(yield* Mounts.disksLeft(data, 0), [])
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped)
)
