import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"

const QUEUED = 500
const SLOTS = 2
const SHORT = "[[slow 2 50]]"

interface Step {
  readonly id: string
  readonly status: string | null
}

/** The logs of all sandboxes, in the order in which they were written. */
const steps = SqlClient.SqlClient.use((sql) =>
  Effect.orDie(sql<Step>`
    SELECT sandbox_id AS id, wire::jsonb -> 'data' ->> 'status' AS status FROM sandbox_events
    WHERE type = 'sandbox.status' ORDER BY written`)
)

const isBoot = ({ status }: Step) => status === "creating"

/** Boots of others that began after the sandbox was created, until its own boot began or `told` ends. */
const boots = (told: ReadonlyArray<Step>, id: string) => {
  const created = told.findIndex((step) => step.id === id && step.status === "queued")
  const began = told.findIndex((step) => step.id === id && isBoot(step))
  const between = told.slice(created, began === -1 ? undefined : began)
  return { hasBegun: began !== -1, before: between.filter((step) => step.id !== id && isBoot(step)).length }
}

it.live("a grant whose 500 sandboxes are queued delays the first sandbox of another grant by one boot in each slot at most", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const url = yield* TestPostgres.database(Migrations.layer)
    yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* Effect.orDie(sql`ALTER TABLE sandbox_events ADD COLUMN written bigserial`)
      const settings = { DATABASE_URL: url, SLIPWAY_WORKER_SLOTS: `${SLOTS}` }
      const server = yield* serve(data, settings)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], settings)
      const keyOf = (grant: string) =>
        Effect.map(run(data, ["keys", "create", "--grant", grant, "--json"], settings), ({ stdout }) => String(JSON.parse(stdout).key))
      const create = (key: string, prompt: string) =>
        Effect.promise(async () => {
          const reply = await fetch(`${server.url}/api/public/v1/sandboxes`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt })
          })
          assert.strictEqual(reply.status, 201)
          return String((await reply.json()).id)
        })
      const begun = (id: string) =>
        until(
          Effect.map(Effect.provideService(steps, SqlClient.SqlClient, sql), (told) => boots(told, id)),
          ({ before, hasBegun }) => hasBegun || before > 5
        )
      const [many, one] = [yield* keyOf("many"), yield* keyOf("one")]
      const alone = yield* begun(yield* create(one, SHORT))

      yield* Effect.replicateEffect(create(many, SHORT), QUEUED, { concurrency: 8, discard: true })
      const behind = yield* begun(yield* create(one, SHORT))
      const waiting = yield* Effect.orDie(sql`SELECT FROM sandboxes WHERE status = 'queued'`)
      assert.isAbove(waiting.length, QUEUED / 2)
      assert.isAtMost(behind.before, alone.before + SLOTS)
      assert.isTrue(behind.hasBegun)
    }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), startupParameters: { TimeZone: "UTC" } })))
  }).pipe(Effect.scoped))
