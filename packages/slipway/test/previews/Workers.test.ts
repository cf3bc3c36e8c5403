/** Previews through a worker in another process, and through a runner in a machine of the sandbox. */
import { assert, describe, it } from "@effect/vitest"
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { ConfigProvider, Deferred, Effect } from "effect"
import { spawnSync } from "node:child_process"
import path from "node:path"
import * as Storage from "../../src/service/storage/Storage.ts"
import * as Settings from "../../src/settings/Settings.ts"
import { folder, serve, worker } from "../commands/SlipwayProcess.ts"
import * as MachinesProgram from "../reliability/failover/MachinesProgram.ts"
import { ask, enter, hostOf, owner, repository, sandboxOf, sendRaw, started, talk } from "./Previewed.ts"

const PATIENCE = 300_000

/** Ends what a killed worker left. */
const clear = (text: string) => Effect.addFinalizer(() => MachinesProgram.end(text))

/** Looks at a server through a process that only answers requests, then kills the worker. `back`: the worker's data folder. */
const look = Effect.fnUntraced(function*(back: string, settings: Readonly<Record<string, string>>) {
  const front = yield* folder
  const environment = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ROLE: "http" }
  const server = yield* serve(front, environment)
  const known = yield* Effect.provide(
    Settings.load,
    ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SLIPWAY_DATA_DIR: front }))
  )
  const port = yield* freePort
  yield* clear(`server.mjs ${port}`)
  const working = yield* worker(back, environment.DATABASE_URL, settings)
  return yield* Effect.gen(function*() {
    yield* repository(yield* folder, "app", { ".slipway/environment.json": JSON.stringify({ ports: [port] }) })
    const id = yield* sandboxOf(server, "app", started(`${process.execPath} server.mjs ${port}`))
    const host = hostOf(server, id, port)
    const cookie = yield* enter(server, yield* owner, id, port)
    const get = (address: string) => ask(server, address, { host, headers: { cookie } })

    const large = "x".repeat(300_000)
    // The server may begin to listen after the agent's turn.
    const post = ask(server, "/post", { host, method: "POST", headers: { cookie }, body: large })
    const told = yield* Effect.repeat(post, { until: ({ text }) => !text.includes("No server on port") })
    assert.strictEqual(told.status, 200, told.text)
    assert.strictEqual(JSON.parse(told.text).body, large)
    assert.isTrue((yield* get("/cut")).isCut)

    const [echoed, begun] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const [talked, streamed] = yield* Effect.all([
      talk(server, host, cookie, `http://${host}`, () => Effect.runSync(Deferred.succeed(echoed, undefined))),
      sendRaw(server, `GET /stream HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\n\r\n`, (answer) => {
        if (answer.includes("half")) Effect.runSync(Deferred.succeed(begun, undefined))
      }),
      Effect.andThen(Effect.all([Deferred.await(echoed), Deferred.await(begun)]), working.kill)
    ], { concurrency: "unbounded" })
    assert.match(talked, /^HTTP\/1\.1 101 [^]*hi$/u)
    // The last chunk is missing: a browser takes it for an answer that broke off.
    assert.notInclude(streamed, "\r\n0\r\n")
    const after = yield* get("/")
    assert.strictEqual(after.status, 503)
    assert.include(after.text, "The sandbox cannot be reached")
  }).pipe(Effect.provide(Storage.layer(known, false)))
}, Effect.scoped)

it.live(
  "a preview passes through the worker's process, breaks off when that is killed, and then says that it cannot be reached",
  () => Effect.scoped(Effect.flatMap(folder, (back) => look(back, { SLIPWAY_ISOLATION: "none" }))),
  PATIENCE
)

const NEEDS = "needs bubblewrap: apt-get install bubblewrap, and root"
const hasMachines = process.getuid?.() === 0 && spawnSync("bwrap", ["--version"]).status === 0

describe.skipIf(!hasMachines)(`in a machine of its own (${NEEDS})`, () => {
  it.live("a preview passes through the runner and the worker, and breaks off with the worker", () =>
    Effect.gen(function*() {
      const back = yield* folder
      const { program } = yield* MachinesProgram.make(yield* folder, "bubblewrap", path.join(back, "machines/filters"))
      yield* look(back, { SLIPWAY_ISOLATION: "runner", SLIPWAY_RUNNER_MACHINES: program })
    }).pipe(Effect.scoped), PATIENCE)
})
