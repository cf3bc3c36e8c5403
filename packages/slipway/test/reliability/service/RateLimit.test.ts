import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { folder, run, serve } from "../../commands/SlipwayProcess.ts"

const LIMIT = 37
const REQUESTS = 200

it.live("of 200 requests at once to two processes with one key, exactly as many pass as the limit allows", () =>
  Effect.gen(function*() {
    const home = yield* folder
    const settings = {
      DATABASE_URL: yield* TestPostgres.database(Migrations.layer),
      SLIPWAY_ROLE: "http",
      SLIPWAY_RATE_LIMIT_PER_MINUTE: String(LIMIT)
    }
    const servers = yield* Effect.all([serve(home, settings), serve(yield* folder, settings)])
    const { key } = JSON.parse((yield* run(home, ["keys", "create", "--json"], settings)).stdout)

    const statuses = yield* Effect.forEach(Array.from({ length: REQUESTS }, (_, i) => servers[i % 2]), (server) =>
      Effect.promise(async () => {
        const reply = await fetch(`${server?.url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })
        await reply.text()
        return { status: reply.status, wait: reply.headers.get("retry-after") }
      }), { concurrency: "unbounded" })

    assert.strictEqual(
      statuses.filter(({ status }) =>
        status === 200
      ).length,
      LIMIT
    )
    const refused = statuses.filter(({ status }) =>
      status === 429
    )
    assert.strictEqual(refused.length, REQUESTS - LIMIT)
    for (const { wait } of refused) assert.include(Array.from({ length: 60 }, (_, i) => String(i + 1)), wait)
  }).pipe(Effect.scoped))

it.live(
  "with many keys of a grant no more pass than the grant's limit allows, and with keys of all its grants than the user's",
  () =>
    Effect.gen(function*() {
      const home = yield* folder
      const settings = {
        DATABASE_URL: yield* TestPostgres.database(Migrations.layer),
        SLIPWAY_ROLE: "http",
        SLIPWAY_RATE_LIMIT_PER_MINUTE: String(LIMIT),
        SLIPWAY_RATE_LIMIT_PER_GRANT: "53",
        SLIPWAY_RATE_LIMIT_PER_USER: "71"
      }
      const servers = yield* Effect.all([serve(home, settings), serve(yield* folder, settings)])
      const minted = yield* Effect.forEach(
        ["one", "two"],
        (grant) => Effect.replicateEffect(run(home, ["keys", "create", "--grant", grant, "--json"], settings), 5, { concurrency: 2 })
      )
      const [ofOne = [], ofTwo = []] = minted.map((keys) => keys.map(({ stdout }): string => JSON.parse(stdout).key))
      const passed = (keys: ReadonlyArray<string>) =>
        Effect.map(
          Effect.forEach(Array.from({ length: REQUESTS }, (_, i) => [servers[i % 2], keys[i % keys.length]] as const), ([server, key]) =>
            Effect.promise(async () => {
              const reply = await fetch(`${server?.url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })
              await reply.text()
              return reply.status
            }), { concurrency: "unbounded" }),
          (statuses) => [statuses.filter((status) => status === 200).length, statuses.filter((status) =>
            status === 429
          ).length]
        )
      assert.deepStrictEqual(yield* passed(ofOne), [53, REQUESTS - 53])
      assert.deepStrictEqual(yield* passed(ofTwo), [71 - 53, REQUESTS - (71 - 53)])
    }).pipe(Effect.scoped)
)
