/** The health that supervisors see of a worker whose machine breaks every boot. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { renameSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, freePort, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"

interface Ready {
  readonly status: number
  readonly said: { readonly status?: string; readonly problem?: string; readonly error?: { readonly message: string } }
}
const readyOf = (url: string) =>
  Effect.promise(async (): Promise<Ready> => {
    const reply = await fetch(`${url}/readyz`)
    return { status: reply.status, said: await reply.json() }
  })

it.live(
  "a worker that breaks five boots is not ready until one goes through; requests are answered meanwhile, and told why",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      const link = `127.0.0.1:${yield* freePort}`
      const databaseUrl = yield* TestPostgres.database(Migrations.layer)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], { DATABASE_URL: databaseUrl })
      const { key, url } = yield* serve(data, {
        DATABASE_URL: databaseUrl,
        SLIPWAY_WORKER_ADDRESS: link,
        SLIPWAY_WORKER_SLOTS: "8"
      })
      const create = Effect.promise(async () => {
        const reply = await fetch(`${url}/api/public/v1/sandboxes`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Hello" })
        })
        assert.strictEqual(reply.status, 201)
      })
      const [http, worker] = [readyOf(url), readyOf(`http://${link}`)]
      const ok = { status: 200, said: { status: "ok" } }
      assert.deepStrictEqual([yield* http, yield* worker], [ok, ok])

      const trees = path.join(data, "trees", "sandboxes")
      renameSync(trees, `${trees}.away`)
      writeFileSync(trees, "not a folder")
      for (let n = 0; n < 5; n++) yield* create
      const broken = yield* until(worker, ({ status }) => status === 503)
      const message = "The last 5 boots here failed for reasons of this machine, so its worker begins none for a while. The log says why."
      assert.strictEqual(broken.said.error?.message, message)
      assert.deepStrictEqual(yield* http, { status: 200, said: { status: "ok", problem: message } })

      rmSync(trees)
      renameSync(`${trees}.away`, trees)
      yield* create
      const booted = Effect.promise(async () => {
        const reply = await fetch(`${url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })
        return (await reply.json()).data.filter(({ status }: { status: string }) => status === "running").length as number
      })
      yield* until(booted, (count) => count > 0)
      assert.deepStrictEqual([yield* worker, yield* http], [ok, ok])
    }).pipe(Effect.scoped)
)
