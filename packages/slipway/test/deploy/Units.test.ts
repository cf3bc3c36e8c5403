/** The units of `deploy/systemd`, under a real systemd. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { parseEnv } from "node:util"
import * as Settings from "../../src/settings/Settings.ts"
import { freePort, until } from "../commands/SlipwayProcess.ts"
import { file, has, text } from "./Deploy.ts"
import * as Systemd from "./Systemd.ts"

const LONG = 300_000

/** The scores of `systemd-analyze security`, from 0 to 10: systemd 252, 2026-11-23. Node and boxes need the remaining permissions. */
const UNITS = { "slipway.service": 3.3, "slipway-http.service": 1.3, "slipway-worker.service": 3.3 }

const withoutAnalyze = !has("systemd-analyze", ["--version"])

/** Tests ask again and again. */
const UNLIMITED = { SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000" }

const ask = (address: string, options: RequestInit = {}) =>
  Effect.promise(() => fetch(address, options).then(async (reply) => ({ status: reply.status, text: await reply.text() }), () => null))

const isReady = (systemd: Systemd.Unit, address: string) =>
  // A request that comes before it says that it is up may never be answered.
  until(Effect.sync(systemd.output), (said) => /^isolation /mu.test(said)).pipe(
    Effect.andThen(until(ask(`${address}/readyz`), (reply) => reply?.status === 200))
  )

/** A sandbox's whole turn: with the offline agent, which runs in a box like every other one. */
const turn = Effect.fnUntraced(function*(url: string, key: string) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
  const call = (address: string, body?: unknown) =>
    ask(`${url}/api/public/v1${address}`, { headers, ...body === undefined ? {} : { method: "POST", body: JSON.stringify(body) } })
  const made = yield* call("/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "[[write path=a.txt content=hello]]" })
  assert.strictEqual(made?.status, 201, made?.text)
  const { id } = JSON.parse(made?.text ?? "")
  const events = yield* until(
    Effect.map(call(`/sandboxes/${id}/events`), (reply) => reply?.text ?? ""),
    (said) => said.includes("sandbox.checkpoint") || said.includes("\"failed\"")
  )
  assert.notInclude(events, "\"failed\"")
})

/** It ended by itself, when it was asked to, before it would have been killed. */
const stops = Effect.fnUntraced(function*(systemd: Systemd.Unit, unit: string) {
  yield* systemd.run("systemctl", "stop", unit)
  assert.strictEqual(
    yield* systemd.run("systemctl", "show", unit, "--property=Result,ExecMainStatus,NRestarts,ActiveState"),
    "Result=success\nNRestarts=0\nExecMainStatus=0\nActiveState=inactive\n",
    systemd.output()
  )
})

const REPOSITORY = `git init --quiet --initial-branch=main shop && cd shop && echo shop > README.md && git add --all &&
git -c user.name=Ada -c user.email=ada@shop.invalid commit --quiet --message Start`

/** Makes a repository in the data folder of a unit, as its account, and tells the service of it. */
const addRepository = Effect.fnUntraced(function*(systemd: Systemd.Unit, settings: string) {
  const account = ["--reuid=slipway", "--regid=slipway", "--clear-groups"]
  const slipway = "/opt/slipway/node_modules/.bin/node /opt/slipway/packages/slipway/bin/slipway.js"
  const add = `${settings} SLIPWAY_DATA_DIR=/var/lib/slipway ${slipway} repos add acme/shop /var/lib/slipway/shop`
  yield* systemd.run("setpriv", ...account, "sh", "-c", `cd /var/lib/slipway && (${REPOSITORY}) && ${add}`)
})

/** The key that a service mints when there is none. */
const firstKey = (systemd: Systemd.Unit) =>
  Effect.map(
    until(Effect.sync(() => /^API key +(sbx_live_\w+)/mu.exec(systemd.output())), (found) => found !== null),
    (found) => found?.[1] ?? ""
  )

describe("the units", () => {
  it("have only valid settings", () => {
    const env = text("systemd/slipway.env").replaceAll(/^#(?=[A-Z_]+=)/gmu, "")
    const units = Object.keys(UNITS).map((unit) => text(`systemd/${unit}`)).join()
    const names = [...Object.keys(parseEnv(env)), ...Array.from(units.matchAll(/\b(SLIPWAY_\w+)=/gu), ([, name]) => name)]
    assert.include(names, "SLIPWAY_TRUSTED_PROXIES")
    assert.deepStrictEqual(Settings.unknown(Object.fromEntries(names.map((name) => [name, "x"]))), [])
  })

  it("give workers the time for checkpoints that ending takes", () => {
    for (const unit of ["slipway.service", "slipway-worker.service"]) {
      const [, seconds] = /^TimeoutStopSec=(\d+)$/mu.exec(text(`systemd/${unit}`)) ?? []
      assert.isAtLeast(Number(seconds), 8 + 90, unit)
      // Else systemd would end the agents whose turns are to go on.
      assert.match(text(`systemd/${unit}`), /^KillMode=mixed$/mu)
    }
  })

  it.skipIf(withoutAnalyze)("are exposed no more than they have to be (needs systemd-analyze)", () => {
    for (const [unit, exposure] of Object.entries(UNITS)) {
      const threshold = `--threshold=${exposure * 10}`
      execFileSync("systemd-analyze", ["security", "--offline=true", threshold, file(`systemd/${unit}`)], { stdio: "pipe" })
    }
  })
})

describe.skipIf(Systemd.lacking !== null)(`under systemd${Systemd.lacking === null ? "" : ` (needs ${Systemd.lacking})`}`, () => {
  it.live("slipway.service serves all by itself, runs a turn in a box, and ends when it is asked to", () =>
    Effect.gen(function*() {
      const unit = "slipway.service"
      const port = yield* freePort
      const systemd = yield* Systemd.start(unit, { SLIPWAY_PORT: `${port}`, ...UNLIMITED })
      yield* isReady(systemd, `http://127.0.0.1:${port}`)
      const key = yield* firstKey(systemd)
      assert.match(systemd.output(), /^isolation +bubblewrap$/mu)
      yield* addRepository(systemd, "")
      yield* turn(`http://127.0.0.1:${port}`, key)
      yield* stops(systemd, unit)
    }).pipe(Effect.scoped), LONG)

  it.live(
    "slipway-http.service and slipway-worker.service share a database, and both end when they are asked to",
    () =>
      Effect.gen(function*() {
        // The test's Postgres has a socket that only its account opens.
        const { url } = yield* SilentNetwork.make(yield* TestPostgres.database(Migrations.layer))
        const [port, files, metrics] = [yield* freePort, yield* freePort, yield* freePort]
        const http = yield* Systemd.start("slipway-http.service", { DATABASE_URL: url, SLIPWAY_PORT: `${port}`, ...UNLIMITED })
        const worker = yield* Systemd.start("slipway-worker.service", {
          DATABASE_URL: url,
          SLIPWAY_WORKER_ADDRESS: `127.0.0.1:${files}`,
          SLIPWAY_METRICS_ADDRESS: `127.0.0.1:${metrics}`
        })
        yield* isReady(http, `http://127.0.0.1:${port}`)
        yield* isReady(worker, `http://127.0.0.1:${files}`)
        yield* isReady(worker, `http://127.0.0.1:${metrics}`)
        assert.include((yield* ask(`http://127.0.0.1:${metrics}/metrics`))?.text ?? "", "slipway_worker_slots")
        assert.match(worker.output(), /^isolation +bubblewrap$/mu)
        yield* addRepository(worker, `DATABASE_URL='${url}'`)
        yield* turn(`http://127.0.0.1:${port}`, yield* firstKey(http))
        yield* stops(worker, "slipway-worker.service")
        yield* stops(http, "slipway-http.service")
      }).pipe(Effect.scoped),
    LONG
  )
})
