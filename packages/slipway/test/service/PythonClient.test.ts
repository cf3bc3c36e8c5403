/** The Python client against the service, by its own tests: a stream that is cut loses nothing. Needs python3. */
import { assert, describe, it } from "@effect/vitest"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Effect } from "effect"
import { execFile, spawnSync } from "node:child_process"
import path from "node:path"
import { folder, repository, run, serve } from "../commands/SlipwayProcess.ts"

const client = path.resolve(import.meta.dirname, "../../../../clients/python")

const oldest = "import sys; sys.exit(sys.version_info < (3, 10))"
const found = spawnSync("python3", ["-c", oldest]).status === 0
if (!found) process.stderr.write("python3 is not here, or older than 3.10: the Python client is not tested.\n")

const python = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) =>
  Effect.callback<{ readonly code: number; readonly said: string }>((resume) => {
    const child = execFile("python3", args, {
      cwd: client,
      env: { PATH: process.env["PATH"], PYTHONDONTWRITEBYTECODE: "1", PYTHONPATH: "src", NO_PROXY: "127.0.0.1,localhost", ...env }
    }, (error, stdout, stderr) => resume(Effect.succeed({ code: error === null ? 0 : 1, said: stdout + stderr })))
    return Effect.sync(() => child.kill())
  })

describe.skipIf(!found)("the Python client", () => {
  it.live("does what its tests say, on a service too, and so do its examples", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none" }
      const server = yield* serve(data, settings)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
      const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
      const env = { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: String(JSON.parse(stdout).key) }

      const tests = yield* python(["-m", "unittest", "discover", "--start-directory", "tests"], env)
      assert.strictEqual(tests.code, 0, tests.said)
      assert.match(tests.said, /^OK$/mu)

      const changed = yield* python(["examples/change.py", "acme/shop", "[[write path=c.txt content=sea]]"], env)
      assert.strictEqual(changed.code, 0, changed.said)
      assert.match(changed.said, /\/acme\/shop\/pulls\/\d+\n/u)
      const feed = yield* python(["examples/feed.py", "--once", path.join(data, "cursor")], env)
      assert.strictEqual(feed.code, 0, feed.said)
    }).pipe(Effect.scoped), 180_000)
})
