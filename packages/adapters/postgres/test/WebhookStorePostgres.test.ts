import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { notificationTypes } from "@slipway/domain/partner/rules/Notification"
import type { WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite, WebhookFixture } from "@slipway/testing/contracts/partner/WebhookStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as MaintenancePostgres from "../src/maintenance/MaintenancePostgres.ts"
import * as PartnerStorePostgres from "../src/partner-store/PartnerStorePostgres.ts"
import * as Rekey from "../src/Rekey.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import { type Key, SecretsKey } from "../src/secret-store/SecretsKey.ts"
import * as WebhookStorePostgres from "../src/webhook-store/WebhookStorePostgres.ts"
import { database } from "./Stores.ts"

const Fixture = Layer.effect(
  WebhookFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    WebhookFixture.of({
      expireTaken: Effect.orDie(Effect.andThen(
        sql`UPDATE webhook_endpoints SET claimed_until = now() WHERE claimed_until IS NOT NULL`,
        Effect.forEach(["webhook_redeliveries", "notification_lines", "notification_redeliveries"], (table) =>
          sql`UPDATE ${sql(table)} SET claimed_until = now() WHERE claimed_until IS NOT NULL`, { discard: true })
      )),
      // The service's clock stands in tests.
      now: Effect.sync(() =>
        DateTime.makeUnsafe(new Date())
      )
    }))
)

register(suite(
  "postgres",
  Layer.mergeAll(
    Fixture,
    PartnerStorePostgres.layer,
    WebhookStorePostgres.layer.pipe(Layer.provide(SecretsKey.layerEphemeral)),
    SandboxStorePostgres.layer,
    MaintenancePostgres.layer
  ).pipe(
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(database())
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
    Layer.provideMerge(database())
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
      yield* Rekey.all(both)
      const anew = yield* sealed
      assert.strictEqual(Redacted.value(after.unseal(anew, `webhook/${id}`)), "whsec_cmVwbGFjZWQ")
      yield* Rekey.all(both)
      assert.deepStrictEqual(Redacted.value(yield* sealed), Redacted.value(anew))
    }))
})

it.layer(
  Layer.mergeAll(PartnerStorePostgres.layer, WebhookStorePostgres.layer).pipe(
    Layer.provideMerge(SecretsKey.layerEphemeral),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(database())
  )
)("what cannot be read", (it) => {
  const HOUR = 3_600_000
  /** An endpoint of a grant of its own, with an event that waits for it. */
  const waiting = Effect.fnUntraced(function*(name: string) {
    const ids = yield* Ids
    const { grant: { id: grantId } } = yield* (yield* Access).createGrant(name)
    const at = yield* DateTime.now
    const id = yield* ids.uuid7
    const register = (yield* WebhookStore).register
    yield* register({ id, grantId, url: `https://${name}.example/`, types: null, createdAt: at }, Redacted.make(`whsec_${name}`))
    const data = { claimId: id, leadId: "lead", variant: "one", occurredAt: at, projectId: name }
    const tell = [{ grantId, fact: { type: "project.connected" as const, data } }]
    yield* (yield* PartnerStore).record(Effect.succeed({ result: undefined, tell }), at)
    return { grantId, id }
  })
  const delivered = { outcome: { _tag: "Answered", status: 200, retryAfter: null, body: null }, durationMillis: 1 } as const
  const breakings = [
    ["data that are none of its type", "event_unreadable", "UPDATE partner_events SET data = '{\"of\":\"another version\"}'"],
    ["a type of a newer version", "event_unreadable", "UPDATE partner_events SET type = 'project.archived'"],
    ["a secret that no key opens", "secret_unreadable",
      "UPDATE webhook_endpoints SET secrets = '[{\"value\":\"sealed:1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"until\":null}]'"],
    ["secrets that are none", "secret_unreadable", "UPDATE webhook_endpoints SET secrets = '[{}]'"]
  ] as const

  for (const [n, [what, trouble, breaking]] of breakings.entries()) {
    it.effect(`${what}: the others get their events, its endpoint is told why, and nothing of it is lost`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const store = yield* WebhookStore
        const good = yield* Effect.forEach([1, 2, 3], (i) => waiting(`good-${n}-${i}`))
        const bad = yield* waiting(`bad-${n}`)
        const [kept] = yield* sql<{ readonly type: string; readonly data: unknown; readonly secrets: unknown }>`
          SELECT p.type, p.data, e.secrets FROM partner_events p JOIN webhook_endpoints e USING (grant_id) WHERE e.id = ${bad.id}`
        yield* sql`${sql.literal(breaking)} WHERE grant_id = ${bad.grantId}`
        const start = DateTime.add(yield* DateTime.now, { seconds: 1 })
        const taken = yield* store.take(start, 64)
        assert.sameMembers(taken.map(({ endpointId }) => endpointId), good.map(({ id }) => id))
        for (const one of taken) yield* store.record(one, { ...delivered, at: start }, { _tag: "Delivered" }, start)
        const log = store.deliveries(bad, { before: null, limit: 100 })
        assert.deepStrictEqual((yield* log).map(({ attempt, outcome }) => [attempt, outcome]), [[1, { _tag: "Failed", trouble }]])
        assert.deepStrictEqual((yield* store.find(bad)).failures, 1)

        // Once it can be read again, it is next.
        const [type, data, secrets] = [kept?.type ?? "", JSON.stringify(kept?.data), JSON.stringify(kept?.secrets)]
        yield* sql`UPDATE partner_events SET type = ${type}, data = ${data}::jsonb WHERE grant_id = ${bad.grantId}`
        yield* sql`UPDATE webhook_endpoints SET secrets = ${secrets}::jsonb WHERE id = ${bad.id}`
        const later = DateTime.add(start, { milliseconds: HOUR })
        const [again] = yield* store.take(later, 64)
        assert.deepStrictEqual([again?.endpointId, again?.attempt, again?.event.sequence], [bad.id, 2, 1])
        assert(again !== undefined)
        yield* store.record(again, { ...delivered, at: later }, { _tag: "Delivered" }, later)
        assert.deepStrictEqual((yield* store.find(bad)).cursor, 1)
      }))
  }

  it.effect("an endpoint is disabled after the last attempt, and the audit log tells it; a new secret opens it again", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* WebhookStore
      const bad = yield* waiting("exhausted")
      yield* sql`${sql.literal(breakings[2][2])} WHERE grant_id = ${bad.grantId}`
      let now = yield* DateTime.now
      for (let i = 0; i < 10; i++) {
        now = DateTime.add(now, { days: 2 })
        assert.deepStrictEqual(yield* store.take(now, 64), [])
      }
      assert.strictEqual((yield* store.find(bad)).disabled?.reason, "retries_exhausted")
      const told = yield* sql`SELECT 1 FROM audit_log a WHERE a::text LIKE ${`%${bad.id}%`} AND a::text LIKE '%webhook.disabled%'`
      assert.lengthOf(told, 1)
      yield* store.rotate(bad, Redacted.make("whsec_new"), now)
      yield* store.enable(bad, now)
      const [taken] = yield* store.take(DateTime.add(now, { seconds: 1 }), 64)
      assert.deepStrictEqual(taken?.secrets.map(({ value }) => Redacted.value(value)), ["whsec_new"])
    }))

  it.effect("a secret that no key opens keeps no other from being encrypted anew", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { id } = yield* waiting("mixed")
      const key = yield* (yield* SecretsKey).get
      const closed = "sealed:1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
      const until = "2030-01-01T00:00:00.000Z"
      const current = key.seal(Redacted.make("whsec_a"), `webhook/${id}`)
      const stored = JSON.stringify([{ value: current, until: null }, { value: closed, until }])
      yield* sql`UPDATE webhook_endpoints SET secrets = ${stored}::jsonb WHERE id = ${id}`
      const after = yield* Effect.provide(SecretsKey.use(({ get }) => get), Layer.fresh(SecretsKey.layerEphemeral))
      yield* Rekey.all({ ...after, open: (stored, about) => after.open(stored, about) ?? key.open(stored, about) })
      const [row] = yield* sql<{ readonly secrets: ReadonlyArray<{ readonly value: string; readonly until: string | null }> }>`
        SELECT secrets FROM webhook_endpoints WHERE id = ${id}`
      assert.isNotNull(after.open(Redacted.make(row?.secrets[0]?.value ?? ""), `webhook/${id}`))
      assert.deepStrictEqual(row?.secrets[1], { value: closed, until })
    }))
})

it.layer(
  Layer.mergeAll(SandboxStorePostgres.layer, WebhookStorePostgres.layer).pipe(
    Layer.provideMerge(SecretsKey.layerEphemeral),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
    Layer.provideMerge(database())
  )
)("notifications beside the version before", (it) => {
  const at = DateTime.makeUnsafe("2026-11-22T02:41:00.123Z")
  const endpointOf = Effect.fnUntraced(function*(types: WantedTypes) {
    const { grant } = yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)
    const key = { id: yield* (yield* Ids).uuid7, grantId: grant.id }
    yield* (yield* WebhookStore).register({ ...key, url: "https://hooks.example/", types, createdAt: at }, Redacted.make("whsec_first"))
    return key
  })

  it.effect("an event that the version before writes is a notification too, and the rule in SQL is the one of the domain", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grantId, id: endpointId } = yield* endpointOf(["sandbox.ended", "turn.completed"])
      const id = SandboxId.make("c_abcdefghijkl")
      const creation = {
        id,
        grantId,
        createdBy: "user_01J00000000000000000000000",
        title: "A title",
        repos: [{ fullName: "acme/shop" }],
        prompt: "a prompt",
        model: offlineDemo.id,
        agentRuntime: offlineDemo.agentRuntime,
        reasoningEffort: null,
        toolApprovalMode: "prompt" as const,
        metadata: {},
        origin: null,
        continues: null,
        createdAt: at
      }
      yield* (yield* SandboxStore).create({ creation, keyed: null })
      const statuses = ["queued", "creating", "running", "succeeded", "failed", "terminating", "terminated"]
      const wires = [
        ...statuses.map((status) => ["sandbox.status", JSON.stringify({ data: { status } })] as const),
        ...[...NOTIFICATION_TYPES, "message.updated"].filter((type) => !type.startsWith("sandbox.")).map((type) => [type, "{}"] as const)
      ]
      for (const [type, wire] of wires) {
        const [row] = yield* sql<{ readonly types: ReadonlyArray<string> | null }>`SELECT notification_types(${type}, ${wire}) AS types`
        assert.deepStrictEqual(row?.types ?? [], notificationTypes(type, wire))
      }
      for (const [seq, [type, wire]] of wires.entries()) {
        yield* sql`
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, wire)
          VALUES (${id}, ${seq + 2}, ${DateTime.formatIso(at)}, ${type}, ${wire})`
      }
      const store = yield* WebhookStore
      const told: Array<string> = []
      for (;;) {
        const taken = (yield* store.takeNotifications(at, 100)).find((one) => one.endpointId === endpointId)
        if (taken === undefined) break
        told.push(taken.notification.type)
        yield* store.recordNotification(
          taken,
          { at, durationMillis: 1, outcome: { _tag: "Answered", status: 204, retryAfter: null, body: null } },
          { _tag: "Delivered" },
          at
        )
      }
      assert.deepStrictEqual(told, ["sandbox.ended", "sandbox.failed", "sandbox.ended", "turn.completed"])
      // Notifications go with their events.
      yield* sql`DELETE FROM sandbox_events WHERE sandbox_id = ${id}`
      assert.deepStrictEqual(yield* sql`SELECT FROM notifications WHERE sandbox_id = ${id}`, [])
    }))

  it.effect("an endpoint that the version before deletes leaves no lines, and a line that comes too late goes with the next purge", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [kept, deleted] = [yield* endpointOf(["sandbox.ended"]), yield* endpointOf(["sandbox.ended"])]
      const id = SandboxId.make("c_abcdefghijkm")
      yield* sql`
        INSERT INTO sandboxes (id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime,
          tool_approval_mode, metadata, status, initiator, status_at, approvals, publications, usage, revision, last_seq)
        VALUES (${id}, ${kept.grantId}, 'u', now(), '', '[]', '{}', '', '', '', 'prompt', '{}', 'failed', 'system', now(), '[]', '[]',
          '{}', 1, 1)`
      yield* sql`INSERT INTO notifications (sandbox_id, seq, types, at, title, status)
        VALUES (${id}, 1, '{sandbox.ended}', ${DateTime.formatIso(at)}, '', 'failed')`
      const write = (endpointId: string) =>
        sql`INSERT INTO notification_lines (sandbox_id, endpoint_id, cursor, newest, due_at) VALUES (${id}, ${endpointId}, 0, 1, now())`
      const lines = sql<{ readonly endpointId: string }>`
        SELECT endpoint_id AS "endpointId" FROM notification_lines WHERE sandbox_id = ${id} ORDER BY endpoint_id = ${kept.id}`
      yield* write(kept.id)
      yield* write(deleted.id)
      yield* sql`DELETE FROM webhook_endpoints WHERE id = ${deleted.id}`
      assert.deepStrictEqual(yield* lines, [{ endpointId: kept.id }])
      yield* write(deleted.id)
      assert.deepStrictEqual(yield* lines, [{ endpointId: deleted.id }, { endpointId: kept.id }])
      yield* (yield* WebhookStore).purgeNotifications(DateTime.subtract(at, { days: 1 }), 10)
      assert.deepStrictEqual(yield* lines, [{ endpointId: kept.id }])
    }))

  it.effect("finds no event of the feed for an endpoint of notifications alone, and reads why an endpoint was disabled", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* WebhookStore
      const { grantId, id } = yield* endpointOf(["sandbox.ended"])
      const asBefore = sql<{ readonly types: unknown; readonly cursor: bigint; readonly reason: string | null }>`
        SELECT types, cursor, disabled_reason AS reason FROM webhook_endpoints WHERE id = ${id}`
      assert.deepStrictEqual(yield* asBefore, [{ types: null, cursor: BigInt(Number.MAX_SAFE_INTEGER), reason: null }])
      yield* sql`UPDATE webhook_endpoints SET disabled_at = ${DateTime.formatIso(at)}, disabled_reason = 'retries_exhausted',
        silenced_at = ${DateTime.formatIso(at)} WHERE id = ${id}`
      assert.strictEqual((yield* store.find({ grantId, id })).disabled?.reason, "not_accepting")
      // The version before enables it, and later disables it again.
      yield* sql`UPDATE webhook_endpoints SET disabled_at = NULL, disabled_reason = NULL WHERE id = ${id}`
      assert.isNull((yield* store.find({ grantId, id })).disabled)
      const later = DateTime.formatIso(DateTime.add(at, { days: 3 }))
      yield* sql`UPDATE webhook_endpoints SET disabled_at = ${later}, disabled_reason = 'retries_exhausted' WHERE id = ${id}`
      assert.strictEqual((yield* store.find({ grantId, id })).disabled?.reason, "retries_exhausted")
      yield* store.enable({ grantId, id }, at)
      assert.deepStrictEqual(yield* asBefore, [{ types: null, cursor: BigInt(Number.MAX_SAFE_INTEGER), reason: null }])
    }))
})
