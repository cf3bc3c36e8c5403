import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"

const API = "/api/public/v1/sandboxes"

it.live("a service whose database was silent answers 503 meanwhile, and goes on with requests and sandboxes once it is back", () =>
  Effect.gen(function*() {
    const dataDir = yield* folder
    const network = yield* SilentNetwork.make(yield* TestPostgres.database(Migrations.layer))
    const settings = { DATABASE_URL: network.url }
    const { code, stderr } = yield* run(dataDir, ["repos", "add", "acme/shop", repository(dataDir)], settings)
    assert.strictEqual(code, 0, stderr)
    const server = yield* serve(dataDir, settings)
    const headers = { authorization: `Bearer ${server.key}`, "content-type": "application/json" }
    const ask = (path: string, body?: unknown) =>
      Effect.promise(async (signal) => {
        const reply = await fetch(server.url + path, {
          headers,
          signal,
          ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
        })
        return {
          status: reply.status,
          said: await reply.json() as { readonly id: string; readonly turn?: { readonly active: boolean }; readonly status?: string }
        }
      })
    const create = ask(API, { repos: [{ fullName: "acme/shop" }], prompt: "[[say hello]]" })
    const atRest = ({ id }: { readonly id: string }) =>
      until(ask(`${API}/${id}`), ({ said }) => said.status === "running" && said.turn?.active === false)

    const before = yield* create
    assert.strictEqual(before.status, 201)
    yield* atRest(before.said)

    yield* network.silence
    const many = Effect.forEach(Array.from({ length: 100 }), () => ask(API), { concurrency: "unbounded" })
    // The bound that is promised is ten seconds; a busy machine gets twice as much.
    const replies = yield* Effect.timeout(many, "20 seconds")
    assert.deepStrictEqual([...new Set(replies.map(({ status }) => status))], [503])
    assert.strictEqual((yield* ask("/healthz")).status, 200)

    yield* network.restore
    const after = yield* until(create, ({ status }) => status === 201)
    yield* atRest(after.said)
    // Earlier sandboxes go on too.
    assert.strictEqual((yield* ask(`${API}/${before.said.id}/messages`, { prompt: "[[say again]]" })).status, 201)
    yield* atRest(before.said)
  }).pipe(Effect.scoped))
