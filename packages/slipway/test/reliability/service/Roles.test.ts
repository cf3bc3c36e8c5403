import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { parse } from "@slipway/http/testing/PrometheusText"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Fiber } from "effect"
import { existsSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, freePort, processesOf, repository, run, serve, until, worker } from "../../commands/SlipwayProcess.ts"

const LONG = 300_000

const asking = (url: string, key: string | undefined) => {
  const call = (address: string, body?: unknown) =>
    Effect.promise(() =>
      fetch(`${url}/api/public/v1${address}`, {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
      })
    )
  const json = (address: string, body?: unknown) =>
    Effect.flatMap(
      call(address, body),
      (response) => Effect.map(Effect.promise(() => response.json()), (said) => ({ status: response.status, said }))
    )
  return { call, json }
}

it.live(
  "a process that only answers requests gives the files of the worker's machine, while the worker is there",
  () =>
    Effect.gen(function*() {
      const [front, back, another] = [yield* folder, yield* folder, yield* folder]
      const url = yield* TestPostgres.database(Migrations.layer)
      const server = yield* serve(front, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
      yield* run(back, ["repos", "add", "acme/shop", repository(back)], { DATABASE_URL: url })
      const link = `127.0.0.1:${yield* freePort}`
      const first = yield* worker(back, url, { SLIPWAY_WORKER_ADDRESS: link })
      for (const asked of ["/healthz", "/readyz"]) {
        assert.strictEqual(yield* Effect.promise(async () => (await fetch(`http://${link}${asked}`)).text()), `{"status":"ok"}`)
      }

      const { call, json } = asking(server.url, server.key)
      const made = yield* json("/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "[[write path=a.txt content=hello]]" })
      assert.strictEqual(made.status, 201)
      const sandbox = `/sandboxes/${made.said.id}`
      yield* until(json(`${sandbox}/events`), ({ said }) => said.data.some(({ type }: { type: string }) => type === "sandbox.checkpoint"))

      const tree = yield* json(`${sandbox}/files/tree`)
      assert.deepStrictEqual(
        [tree.status, tree.said.entries.map(({ name, status }: { name: string; status: string }) => [name, status])],
        [200, [["README.md", null], ["a.txt", "untracked"]]]
      )
      const large = Buffer.alloc(9_000_001, "0123456789")
      writeFileSync(path.join(back, "trees", "sandboxes", made.said.id, "workspace", "shop", "large"), large)
      const download = yield* call(`${sandbox}/files/download?path=large`)
      assert.deepStrictEqual([download.status, download.headers.get("content-length")], [200, String(large.length)])
      assert.isTrue(large.equals(Buffer.from(yield* Effect.promise(() => download.arrayBuffer()))))
      const content = yield* json(`${sandbox}/files/content?path=a.txt`)
      assert.deepStrictEqual([content.status, content.said.working.text, content.said.base], [200, "hello\n", null])
      for (
        const [asked, status, code] of [
          ["/files/download?path=gone", 404, "file_not_found"],
          ["/files/download?path=.env", 403, "file_protected"],
          ["/files/tree?directory=a.txt", 400, "not_a_directory"]
        ] as const
      ) {
        const { said, status: given } = yield* json(sandbox + asked)
        assert.deepStrictEqual([given, said.error.code], [status, code])
      }
      assert.isFalse(existsSync(path.join(front, "trees")))

      yield* first.kill
      const refused = yield* call(`${sandbox}/files/tree`)
      assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [409, "1"])
      assert.strictEqual((yield* Effect.promise(() => refused.json())).error.code, "agent_disconnected")
      yield* until(processesOf(back), (left) => left.length === 0)
      // It needs no worker now: it is at rest.
      const second = yield* worker(back, url)
      yield* until(json(`${sandbox}/files/tree`), ({ status }) => status === 200)
      assert.strictEqual((yield* call(`${sandbox}/files/download?path=large`)).status, 200)

      yield* second.kill
      yield* worker(another, url)
      const restored = yield* until(json(`${sandbox}/files/tree`), ({ status }) => status === 200)
      // Times of files are new.
      const timeless = ({ entries, ...said }: { entries: ReadonlyArray<object> }) => ({
        ...said,
        entries: entries.map((entry) => ({ ...entry, mtimeMs: null }))
      })
      assert.deepStrictEqual(timeless(restored.said), timeless(tree.said))
      const restoredContent = yield* json(`${sandbox}/files/content?path=a.txt`)
      assert.deepStrictEqual([restoredContent.status, restoredContent.said], [200, content.said])
      // It was written after the checkpoint.
      assert.strictEqual((yield* call(`${sandbox}/files/download?path=large`)).status, 404)
      assert.isFalse(existsSync(path.join(another, "trees", "sandboxes", made.said.id)))
    }).pipe(Effect.scoped),
  LONG
)

it.live("each of two processes that do everything gives its own files and the other one's", () =>
  Effect.gen(function*() {
    const folders = [yield* folder, yield* folder] as const
    const url = yield* TestPostgres.database(Migrations.layer)
    yield* run(folders[0], ["repos", "add", "acme/shop", repository(folders[0])], { DATABASE_URL: url })
    const one = yield* serve(folders[0], { DATABASE_URL: url })
    const other = yield* serve(folders[1], { DATABASE_URL: url, SLIPWAY_WORKER_ADDRESS: "localhost:0" })
    const servers = [asking(one.url, one.key), asking(other.url, one.key)] as const
    const made = yield* servers[0].json("/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "Hello" })
    yield* until(servers[0].json(`/sandboxes/${made.said.id}`), ({ said }) => said.status === "running")
    for (const { json } of servers) {
      const { said, status } = yield* json(`/sandboxes/${made.said.id}/files/tree`)
      assert.deepStrictEqual([status, said.entries?.some(({ name }: { name: string }) => name === "README.md")], [200, true])
    }
    assert.strictEqual((yield* one.stop("SIGTERM")).code, 0)
    assert.strictEqual((yield* other.stop("SIGTERM")).code, 0)
  }).pipe(Effect.scoped), LONG)

it.live(
  "a worker alone tells its metrics and health at an address of its own, while its database is silent and until its last turn ended",
  () =>
    Effect.gen(function*() {
      const [front, back] = [yield* folder, yield* folder]
      const url = yield* TestPostgres.database(Migrations.layer)
      const network = yield* SilentNetwork.make(url)
      const server = yield* serve(front, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
      yield* run(back, ["repos", "add", "acme/distinctive-shop", repository(back)], { DATABASE_URL: url })
      const [watched, link] = [`127.0.0.1:${yield* freePort}`, `127.0.0.1:${yield* freePort}`]
      const working = yield* worker(back, network.url, {
        SLIPWAY_METRICS_ADDRESS: watched,
        SLIPWAY_WORKER_ADDRESS: link,
        SLIPWAY_WORKER_SLOTS: "8",
        SLIPWAY_DRAIN_SECONDS: "600"
      })
      const ask = (at: string, options: RequestInit = {}) =>
        Effect.promise(async () => {
          const reply = await fetch(`http://${at}`, options)
          return { status: reply.status, type: reply.headers.get("content-type"), text: await reply.text() }
        })
      const statuses = Effect.forEach(["/healthz", "/readyz", "/metrics"], (asked) =>
        Effect.map(ask(watched + asked), ({ status }) => status))

      const { json } = asking(server.url, server.key)
      const made = yield* json("/sandboxes", { repos: [{ fullName: "acme/distinctive-shop" }], prompt: "[[say distinctive]]" })
      const sandbox = `/sandboxes/${made.said.id}`
      const turnIs = (active: boolean) =>
        until(json(sandbox), ({ said }) => said.status === "running" && said.turn.active === active)
      yield* turnIs(false)
      const metrics = yield* ask(`${watched}/metrics`)
      assert.deepStrictEqual([metrics.status, metrics.type], [200, "text/plain; version=0.0.4; charset=utf-8"])
      const { values } = parse(metrics.text)
      const expected = {
        slipway_boots_started_total: 1,
        "slipway_turns_ended_total{state=\"succeeded\"}": 1,
        slipway_worker_slots: 8,
        slipway_worker_boots_paused: 0,
        slipway_event_logs_purged_total: 0,
        "slipway_webhook_attempts_total{outcome=\"delivered\"}": 0
      }
      assert.deepStrictEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, values.get(name)])), expected)
      for (
        const name of ["process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "nodejs_heap_size_used_bytes"]
      ) {
        assert.isAbove(values.get(name) ?? 0, 0, name)
      }
      assert.notMatch(metrics.text, /distinctive|slipway_sandboxes\b/u)
      assert.deepStrictEqual(yield* statuses, [200, 200, 200])
      assert.strictEqual((yield* ask(`${watched}/nothing`)).status, 404)
      assert.strictEqual((yield* ask(`${watched}/metrics`, { method: "POST" })).status, 405)
      // Where files are read, metrics are not told.
      assert.strictEqual((yield* ask(`${link}/metrics`)).status, 404)

      yield* network.silence
      assert.deepStrictEqual(yield* statuses, [200, 503, 200])
      yield* network.restore
      yield* until(statuses, ([, ready]) => ready === 200)

      const sent = yield* json(`${sandbox}/messages`, { prompt: "[[hang]]" })
      assert.strictEqual(sent.status, 201, JSON.stringify(sent.said))
      yield* turnIs(true)
      const stopping = yield* Effect.forkChild(working.stop)
      const draining = yield* until(ask(`${watched}/readyz`), ({ status }) => status === 503)
      assert.strictEqual(JSON.parse(draining.text).error.message, "The worker is shutting down.")
      assert.deepStrictEqual(yield* statuses, [200, 503, 200])
      yield* json(`${sandbox}/interrupt`, {})
      assert.strictEqual(yield* Fiber.join(stopping), 0)
    }).pipe(Effect.scoped),
  LONG
)

it.live("a worker that was told to serve files or metrics on a public address does not start", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const url = yield* TestPostgres.database(Migrations.layer)
    for (const [setting, what] of [["SLIPWAY_WORKER_ADDRESS", "working trees"], ["SLIPWAY_METRICS_ADDRESS", "metrics"]] as const) {
      const { code, stderr } = yield* run(data, ["serve"], {
        DATABASE_URL: url,
        SLIPWAY_ROLE: "worker",
        SLIPWAY_PUBLIC_URL: "https://slipway.test",
        [setting]: "8.8.8.8:4001"
      })
      assert.strictEqual(code, 1)
      assert.match(
        stderr,
        new RegExp(`^slipway: A worker cannot serve ${what} at 8\\.8\\.8\\.8:4001: it is neither [^\\n]*${setting}\\.$`, "mu")
      )
    }
  }).pipe(Effect.scoped), LONG)
