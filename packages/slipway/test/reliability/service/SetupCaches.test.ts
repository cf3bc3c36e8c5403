/** Caches that setups of sandboxes fill are kept for the next ones: a service as it is served, with boxes, git and Postgres. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const MANY = 20

const isolated = ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
const hasBoxes = process.platform === "linux" && spawnSync("bwrap", isolated, { cwd: "/" }).status === 0

/** Each run of it fills the folders with what no other run does. */
const SETUP = [
  "mkdir -p node_modules/tool ~/.tool; cat /proc/sys/kernel/random/uuid > node_modules/tool/id; cp node_modules/tool/id ~/.tool/id",
  "printf '#!/bin/sh\\necho runs\\n' > node_modules/tool/run; chmod 755 node_modules/tool/run; ln -s run node_modules/tool/link",
  "sleep 2; echo set up"
]
/** The files of the cache in the sandbox, where they can be read. */
const LOOK = "[[shell { cat node_modules/tool/id ~/.tool/id; node_modules/tool/link; } > told.txt]]"

const commit = (at: string) => {
  execFileSync("git", ["add", "--all"], { cwd: at })
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message", "More"], { cwd: at })
}

const served = Effect.gen(function*() {
  const data = yield* folder
  const url = yield* TestPostgres.database(Migrations.layer)
  const settings = {
    DATABASE_URL: url,
    SLIPWAY_ISOLATION: "bubblewrap",
    SLIPWAY_WORKER_SLOTS: `${MANY + 5}`
  }
  const shop = repository(data)
  mkdirSync(path.join(shop, ".slipway"))
  writeFileSync(path.join(shop, ".slipway/environment.json"), JSON.stringify({ setup: SETUP, cache: ["node_modules", "~/.tool"] }))
  writeFileSync(path.join(shop, ".gitignore"), "node_modules\n")
  writeFileSync(path.join(shop, "package-lock.json"), "1")
  commit(shop)
  const server = yield* serve(data, settings)
  yield* run(data, ["repos", "add", "acme/shop", shop], settings)
  const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
  return { data, shop, server, api: Api.make({ ...server, key: String(JSON.parse(stdout).key) }) }
})

const setupsOf = (api: Api.Api, id: string) =>
  Effect.map(api.log(id), (log) => log.flatMap(({ data, type }) => type === "sandbox.boot" && data["stage"] === "setup" ? [data] : []))

const create = (api: Api.Api) => api.create({ prompt: LOOK })

/** The state of its cache, and the content of its folders, as its agent sees them. */
const seen = Effect.fnUntraced(function*(api: Api.Api, id: string) {
  yield* api.event(id, "turn.completed")
  const caches = (yield* setupsOf(api, id)).map(({ cache }) => cache)
  const [inTree, inHome, said] = (yield* api.file(id, "told.txt")).split("\n")
  assert.deepStrictEqual([inHome, said], [inTree, "runs"])
  assert.match(inTree ?? "", /^[0-9a-f-]{36}$/u)
  return { id, caches, filledBy: inTree }
})

describe.skipIf(!hasBoxes)("caches of setups (needs bubblewrap)", () => {
  it.live("of twenty sandboxes that are created at once one runs the setup, and all have what it filled", () =>
    Effect.gen(function*() {
      const { api, data, shop } = yield* served
      const ids = yield* Effect.replicateEffect(create(api), MANY, { concurrency: "unbounded" })
      const many = yield* Effect.forEach(ids, (id) => seen(api, id))
      assert.deepStrictEqual(many.flatMap(({ caches }) => caches).sort(), [...Array.from({ length: MANY - 1 }, () => "hit"), "miss"])
      assert.strictEqual(new Set(many.map(({ filledBy }) => filledBy)).size, 1)
      const kept = readdirSync(path.join(data, "caches"))
      // Beside the archive there is an image of it where the machine can show one.
      assert.lengthOf(kept.filter((name) => !name.endsWith(".image")), 1)
      for (const at of [path.join(data, "caches"), ...kept.map((name) => path.join(data, "caches", name))]) {
        assert.strictEqual(statSync(at).mode & 0o077, 0)
      }

      writeFileSync(path.join(shop, "package-lock.json"), "2")
      commit(shop)
      const next = yield* seen(api, yield* create(api))
      assert.deepStrictEqual(next.caches, ["miss"])
      assert.notStrictEqual(next.filledBy, many[0]?.filledBy)
    }).pipe(Effect.scoped), 600_000)

  it.live(
    "a restore brings the folders back from the cache, as they were filled, and no checkpoint has any of them",
    () =>
      Effect.gen(function*() {
        const { api, data } = yield* served
        const { filledBy, id } = yield* seen(api, yield* create(api))
        yield* api.event(id, "sandbox.checkpoint")
        const goBack = Effect.fnUntraced(function*(n: number) {
          yield* api.send(
            id,
            "[[shell rm -rf node_modules; mkdir node_modules; echo changed | tee node_modules/own ~/.tool/id > told.txt]]"
          )
          yield* api.event(id, "turn.completed", 2 * n)
          yield* api.restore(id, 1)
          yield* api.event(id, "sandbox.restored", n)
          // Setup comes after the trees, and a requested turn waits for it.
          yield* api.send(id, LOOK)
          yield* api.event(id, "turn.completed", 2 * n + 1)
          const [inTree, inHome] = (yield* api.file(id, "told.txt")).split("\n")
          const { cache, state } = yield* api.setup(id)
          return { inTree, inHome, setup: `${state} ${cache}` }
        })
        assert.deepStrictEqual(yield* goBack(1), { inTree: filledBy, inHome: filledBy, setup: "succeeded hit" })

        // Without the cache there is nothing that would have them.
        for (const name of readdirSync(path.join(data, "caches"))) rmSync(path.join(data, "caches", name))
        const again = yield* goBack(2)
        assert.deepStrictEqual([again.inHome, again.setup], [again.inTree, "succeeded miss"])
        assert.notInclude([filledBy, "changed"], again.inTree)
        assert.deepStrictEqual(readdirSync(path.join(data, "caches")), [])
      }).pipe(Effect.scoped),
    600_000
  )
})
