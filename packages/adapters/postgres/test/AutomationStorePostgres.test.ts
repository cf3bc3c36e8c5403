import { assert, it } from "@effect/vitest"
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { AutomationFixture, suite } from "@slipway/testing/contracts/automation/AutomationStoreContract"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as AutomationStorePostgres from "../src/automation-store/AutomationStorePostgres.ts"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import * as Rekey from "../src/Rekey.ts"
import { type Key, SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { stores } from "./Stores.ts"

const Fixture = Layer.effect(
  AutomationFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    AutomationFixture.of({
      expireClaims: Effect.orDie(Effect.asVoid(sql`UPDATE automation_runs SET claimed_until = now() WHERE claimed_until IS NOT NULL`))
    }))
)
const layer = Layer.merge(Fixture, AutomationStorePostgres.layer).pipe(
  Layer.provideMerge(SecretsKey.layerEphemeral),
  Layer.provideMerge(stores(CheckpointsPostgres.layer))
)

register(suite("postgres", layer))

it.layer(layer)("what is stored", (it) => {
  const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
  const settings = {
    name: "Nightly",
    repos: [{ fullName: "acme/shop" }],
    prompt: "Do it.",
    toolApprovalMode: "auto",
    maxRunning: 1,
    maxPerDay: 1
  } as const
  const add = Effect.fnUntraced(function*(id: string, trigger: { type: "webhook" } | { type: "schedule"; cron: string; timeZone: string }) {
    const grantId = yield* (yield* StoreFixture).grant
    const about = { id, grantId, createdBy: "user_01J00000000000000000000000", test: false, createdAt: at }
    return yield* (yield* AutomationStore).create(
      { ...about, settings: { ...settings, trigger } },
      trigger.type === "webhook" ? Redacted.make("whsec_Zmlyc3QgYW5kIG9ubHk") : null
    )
  })

  it.effect("has no secret as it is, and is encrypted anew for the first of two keys", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* AutomationStore
      const { id } = yield* add("0193aaaa-0000-7000-8000-000000000001", { type: "webhook" })
      const rows = sql<{ readonly row: string }>`SELECT a::text AS row FROM automations a WHERE id = ${id}`
      assert.notInclude((yield* rows)[0]?.row ?? "", "Zmlyc3Q")
      const before = yield* (yield* SecretsKey).get
      const after = yield* Effect.provide(SecretsKey.use(({ get }) => get), Layer.fresh(SecretsKey.layerEphemeral))
      const both: Key = { ...after, open: (stored, about) => after.open(stored, about) ?? before.open(stored, about), isAlone: false }
      yield* Rekey.all(both)
      assert.deepStrictEqual((yield* store.secretsOf(id)).secrets, [], "the key before opens it no more")
      const anew = yield* rows
      yield* Rekey.all(both)
      assert.deepStrictEqual(yield* rows, anew)
    }))

  it.effect("by a newer version keeps no other schedule from its turn", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* AutomationStore
      const daily = { type: "schedule", cron: "0 7 * * *", timeZone: "UTC" } as const
      const odd = yield* add("0193aaaa-0000-7000-8000-000000000002", daily)
      const good = yield* add("0193aaaa-0000-7000-8000-000000000003", daily)
      yield* sql`UPDATE automations SET due_at = due_at - interval '1 day', settings = '{}' WHERE id = ${odd.id}`
      const now = DateTime.add(at, { days: 1 })
      assert.deepStrictEqual(yield* store.beginDue(now, 1), [])
      assert.deepStrictEqual((yield* store.beginDue(now, 1)).map(({ run }) => run.automationId), [good.id])
      assert.deepStrictEqual(yield* store.beginDue(now, 1), [])
    }))
})
