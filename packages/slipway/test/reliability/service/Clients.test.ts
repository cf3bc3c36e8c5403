/**
 * The clients for other programs: the clients for Python and Go by their own tests and examples against processes of the service, with
 * python3 and go, and the examples of the client for JavaScript against a service in this process.
 */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Embed from "@slipway/http/Embed"
import * as Migrations from "@slipway/postgres/Migrations"
import * as TestSlipway from "@slipway/worker/testing/TestSlipway"
import { Effect, Redacted } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import path from "node:path"
import { folder, repository, run, serve } from "../../commands/SlipwayProcess.ts"

const LONG = 300_000
const root = path.resolve(import.meta.dirname, "../../../../..")

const oldest = "import sys; sys.exit(sys.version_info < (3, 10))"
const hasPython = spawnSync("python3", ["-c", oldest]).status === 0
if (!hasPython) process.stderr.write("python3 is not here, or older than 3.10: the Python client is not tested.\n")
const hasGo = spawnSync("go", ["version"]).status === 0
if (!hasGo) process.stderr.write("go is not here: the Go client is not tested.\n")

/** Runs a program to its end, in a folder of the repository. */
const program = (command: string, at: string, env: Readonly<Record<string, string>>) => (...args: ReadonlyArray<string>) =>
  Effect.callback<{ readonly code: number; readonly out: string; readonly err: string }>((resume) => {
    const child = execFile(command, args, {
      cwd: path.join(root, at),
      env: { PATH: process.env["PATH"], ...env }
    }, (error, out, err) => resume(Effect.succeed({ code: error === null ? 0 : 1, out, err })))
    return Effect.sync(() => child.kill())
  })

const served = Effect.gen(function*() {
  const data = yield* folder
  const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none" }
  const server = yield* serve(data, settings)
  yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
  const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
  return { data, env: { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: String(JSON.parse(stdout).key) } }
})

/** The service in this process. Its clock stands still: no program waits for time to pass there. */
const inProcess = Effect.gen(function*() {
  const slipway = yield* Effect.acquireRelease(Effect.promise(() => TestSlipway.start()), ({ close }) => Effect.promise(close))
  const server = createServer()
  yield* Effect.promise(() => new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening)))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const embedded = yield* Effect.acquireRelease(
    Effect.promise(() => Embed.make(slipway.services, { publicUrl: url, cursorKey: Redacted.make("a key of the test") })),
    (embedded) => Effect.promise(() => embedded.close().finally(() => server.close().closeAllConnections()))
  )
  server.on("request", embedded.node)
  return { data: yield* folder, env: { SLIPWAY_URL: url, SLIPWAY_API_KEY: slipway.key } }
})

const PULL_REQUEST = /\/acme\/shop\/pulls?\/\d+\n/u

describe.skipIf(!hasPython)("the client for Python (needs python3)", () => {
  it.live("does what its tests say, on a service too, and its examples run", () =>
    Effect.gen(function*() {
      const { data, env } = yield* served
      const python = program("python3", "clients/python", {
        PYTHONDONTWRITEBYTECODE: "1",
        PYTHONPATH: "src",
        NO_PROXY: "127.0.0.1,localhost",
        ...env
      })
      const tests = yield* python("-m", "unittest", "discover", "--start-directory", "tests")
      assert.strictEqual(tests.code, 0, tests.err)
      assert.match(tests.err, /^OK$/mu)

      const changed = yield* python("examples/change.py", "acme/shop", "[[write path=c.txt content=sea]]")
      assert.strictEqual(changed.code, 0, changed.err)
      assert.match(changed.out, PULL_REQUEST)
      const feed = yield* python("examples/feed.py", "--once", path.join(data, "cursor"))
      assert.strictEqual(feed.code, 0, feed.err)
    }).pipe(Effect.scoped), LONG)
})

describe.skipIf(!hasGo)("the client for Go (needs go: golang-go)", () => {
  it.live("is in gofmt's form, does what its tests say, on a service too, and its example runs", () =>
    Effect.gen(function*() {
      const { data, env } = yield* served
      // Go's own folders may be in no home of this process. Nothing is downloaded: the module needs no other.
      const settings = { GOCACHE: path.join(data, "go-build"), GOPATH: path.join(data, "go"), GOFLAGS: "-mod=readonly", GOPROXY: "off" }
      const run = (command: string) => program(command, "clients/go", { ...settings, NO_PROXY: "127.0.0.1,localhost", ...env })
      const [go, gofmt] = [run("go"), run("gofmt")]
      assert.deepStrictEqual(yield* gofmt("-l", "."), { code: 0, out: "", err: "" })
      assert.deepStrictEqual(yield* go("vet", "./..."), { code: 0, out: "", err: "" })
      const tests = yield* go("test", "-count=1", "-v", ".")
      assert.strictEqual(tests.code, 0, tests.out + tests.err)
      assert.notInclude(tests.out, "SKIP")

      const changed = yield* go("run", "./examples/change", "acme/shop", "[[say Done]] [[write path=d.txt content=dee]]")
      assert.strictEqual(changed.code, 0, changed.err)
      assert.include(changed.out, "Done")
      assert.match(changed.out, PULL_REQUEST)
    }).pipe(Effect.scoped), LONG)
})

describe("the examples of the client", () => {
  it.live("go from a prompt to a pull request, and follow a sandbox on from where they were", () =>
    Effect.gen(function*() {
      const { data, env } = yield* inProcess
      const node = program(process.execPath, "examples/client", env)
      const changed = yield* node("src/change.ts", "acme/shop", "[[say Done]] [[write path=c.txt content=sea]]")
      assert.strictEqual(changed.code, 0, changed.err)
      assert.include(changed.out, "Done")
      assert.match(changed.out, PULL_REQUEST)

      const id = /sandboxes\/(c_\w+)\n/u.exec(changed.out)?.[1] ?? ""
      const file = path.join(data, "last")
      const follow = Effect.map(node("src/follow.ts", id, file), ({ code, err, out }) => {
        assert.strictEqual(code, 0, err)
        return out.split("\n").filter((line) => line !== "").map((line): { readonly id: string; readonly type: string } => JSON.parse(line))
      })
      const events = yield* follow
      assert.deepStrictEqual(events.map((event) => event.id), events.map((_, index) => String(index + 1)))
      assert.strictEqual(events.filter(({ type }) => type === "approval.resolved").length, 1)
      assert.deepStrictEqual(yield* follow, [])
      writeFileSync(file, "3")
      assert.deepStrictEqual(yield* follow, events.slice(3))

      const refused = yield* node("src/change.ts", "acme/none", "x")
      assert.deepStrictEqual([refused.code, refused.out], [1, ""])
      assert.match(refused.err, /\(repo_not_accessible, /u)
    }).pipe(Effect.scoped), LONG)
})
