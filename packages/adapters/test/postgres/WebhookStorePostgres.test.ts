import { assert, it } from "@effect/vitest"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/adapters/postgres/PartnerStorePostgres"
import { type Key, SecretsKey } from "@slipway/adapters/postgres/SecretsKey"
import * as WebhookStorePostgres from "@slipway/adapters/postgres/WebhookStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/WebhookStore"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { suite, WebhookFixture } from "@slipway/domain/testing/WebhookStoreContract"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"

const Fixture = Layer.effect(
  WebhookFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    WebhookFixture.of({
      expireTaken: Effect.orDie(Effect.andThen(
        sql`UPDATE webhook_endpoints SET claimed_until = now() WHERE claimed_until IS NOT NULL`,
        Effect.asVoid(sql`UPDATE webhook_redeliveries SET claimed_until = now() WHERE claimed_until IS NOT NULL`)
      ))
    }))
)

register(suite(
  "postgres",
  Layer.mergeAll(Fixture, PartnerStorePostgres.layer, WebhookStorePostgres.layer.pipe(Layer.provide(SecretsKey.layerEphemeral))).pipe(
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
))

/** Whether the secret is in the rows, with or without what every secret begins with. */
const holds = (rows: unknown, secret: Redacted.Redacted) => JSON.stringify(rows).includes(Redacted.value(secret).replace(/^whsec_/u, ""))

it.layer(
  Layer.mergeAll(PartnerStorePostgres.layer, WebhookStorePostgres.layer).pipe(
    Layer.provideMerge(SecretsKey.layerEphemeral),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
)("secrets of endpoints", (it) => {
  it.effect("are in no row as they are: neither new nor rotated ones, nor those of earlier versions once a service has started", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* WebhookStore
      const grantId = (yield* (yield* Access).createGrant("secrets")).grant.id
      const id = "0193aaaa-0000-7000-8000-000000000001"
      const [first, second, earlier] = ["Zmlyc3Q", "c2Vjb25k", "ZWFybGllcg"].map((text) => Redacted.make(`whsec_${text.repeat(4)}`)) as [
        Redacted.Redacted,
        Redacted.Redacted,
        Redacted.Redacted
      ]
      const at = yield* DateTime.now
      yield* store.register({ id, grantId, url: "https://hooks.example/a", types: null, createdAt: at }, first)
      yield* store.rotate({ grantId, id }, second, at)
      const rows = sql`SELECT e::text AS row FROM webhook_endpoints e`
      assert.isFalse(holds(yield* rows, first) || holds(yield* rows, second))

      // As an earlier version stored it.
      yield* sql`UPDATE webhook_endpoints SET secrets = ${JSON.stringify([{ value: Redacted.value(earlier), until: null }])}::jsonb`
      assert.isTrue(holds(yield* rows, earlier))
      yield* WebhookStorePostgres.sealEarlier()
      const sealed = yield* rows
      assert.isFalse(holds(sealed, earlier))
      yield* WebhookStorePostgres.sealEarlier()
      assert.deepStrictEqual(yield* rows, sealed)
      // They still sign.
      const data = { claimId: id, leadId: "lead", variant: "one", occurredAt: at, projectId: id }
      const tell = [{ grantId, fact: { type: "project.connected" as const, data } }]
      yield* (yield* PartnerStore).record(Effect.succeed({ result: undefined, tell }), at)
      const [taken] = yield* store.take(at, 10)
      assert.deepStrictEqual(taken?.secrets.map(({ value }) => Redacted.value(value)), [Redacted.value(earlier)])
    }))

  it.effect("are encrypted anew for the first of two keys, and still sign", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* WebhookStore
      const grantId = (yield* (yield* Access).createGrant("replaced")).grant.id
      const id = "0193aaaa-0000-7000-8000-000000000002"
      const at = yield* DateTime.now
      yield* store.register({ id, grantId, url: "https://hooks.example/b", types: null, createdAt: at }, Redacted.make("whsec_cmVwbGFjZWQ"))
      const before = yield* (yield* SecretsKey).get
      const after = yield* Effect.provide(SecretsKey.use(({ get }) => get), Layer.fresh(SecretsKey.layerEphemeral))
      const both: Key = {
        ...after,
        open: (stored, about) => after.open(stored, about) ?? before.open(stored, about),
        unseal: (stored, about) => after.isCurrent(stored, about) ? after.unseal(stored, about) : before.unseal(stored, about),
        isAlone: false
      }
      const sealed = Effect.map(
        sql<{ readonly value: string }>`SELECT secrets -> 0 ->> 'value' AS value FROM webhook_endpoints WHERE id = ${id}`,
        ([row]) => Redacted.make(row?.value ?? "")
      )
      assert.isNull(after.open(yield* sealed, `webhook/${id}`))
      yield* WebhookStorePostgres.reseal(both)
      const anew = yield* sealed
      assert.strictEqual(Redacted.value(after.unseal(anew, `webhook/${id}`)), "whsec_cmVwbGFjZWQ")
      yield* WebhookStorePostgres.reseal(both)
      assert.deepStrictEqual(Redacted.value(yield* sealed), Redacted.value(anew))
    }))
})
