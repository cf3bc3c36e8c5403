/**
 * Notifications from the log of sandboxes to receivers: Postgres, workers, HTTP. `NOTIFIED_SANDBOXES=1000` runs the case of many
 * sandboxes as a whole. Nothing waits for a retry: what is due later is made due.
 */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { notificationId } from "@slipway/domain/partner/rules/Notification"
import type { WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as WebhookReceiver from "@slipway/machine/testing/WebhookReceiver"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/postgres/partner-store/PartnerStorePostgres"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import { AnswerMillis } from "@slipway/postgres/sql/SqlFailure"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import { Timing } from "@slipway/worker/shared/Timing"
import { DateTime, Duration, Effect, Fiber, Layer, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { validateWebhook } from "replicate"
import { Webhook as StandardWebhook } from "standardwebhooks"
import { v5 } from "uuid"

const postgres = Webhooks.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      PartnerStorePostgres.layer,
      SandboxStorePostgres.layer,
      WebhookStorePostgres.layer.pipe(Layer.provide(SecretsKey.layerEphemeral)),
      WebhookSenderHttp.layer({ allowPrivate: true })
    )
  ),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer)),
  // A busy machine is no silent database.
  Layer.provideMerge(Layer.succeed(AnswerMillis, 300_000))
)

/** Looks until it is as wanted; the test's own time limit is the bound. */
const until = <A, E, R>(look: Effect.Effect<A, E, R>, wanted: (value: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.filterOrElse(look, wanted, () => Effect.delay(until(look, wanted), "20 millis"))

const worker = Effect.gen(function*() {
  yield* DeliverWebhooks.start().pipe(Effect.provideService(Timing, { ...(yield* Timing), tick: Duration.millis(20) }))
})

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant
})
const types: WantedTypes = ["sandbox.running", "pull_request.updated", "sandbox.failed"]

/** A receiver and its endpoint. */
const listener = Effect.fnUntraced(function*(grantId: string) {
  const receiver = yield* WebhookReceiver.start()
  const { endpoint, secret } = yield* (yield* Webhooks).register(grantId, { url: `http://127.0.0.1:${receiver.port}/hook`, types })
  return { receiver, endpoint, secret: Redacted.value(secret) }
})

const create = Effect.fnUntraced(function*(grantId: string, n: number) {
  const id = SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`)
  yield* (yield* SandboxStore).create({
    creation: {
      id,
      grantId,
      createdBy: "user_01J00000000000000000000000",
      title: `Sandbox ${n} \u{1F680}`,
      repos: [{ fullName: "acme/shop" }],
      prompt: "a prompt",
      model: offlineDemo.id,
      agentRuntime: offlineDemo.agentRuntime,
      reasoningEffort: null,
      toolApprovalMode: "prompt",
      metadata: { n: `${n}` },
      origin: null,
      continues: null,
      createdAt: yield* DateTime.now
    },
    keyed: null
  })
  return id
})

const status = (to: "creating" | "running" | "failed"): SandboxEvent => ({
  type: "sandbox.status",
  data: { status: to, previous: null, reason: null, initiator: "system" }
})
const pull: SandboxEvent = { type: "pull_request.updated", data: { repo: "acme/shop", action_state: "publishing" } }

/** Writes the life of a sandbox: three events of it are notifications. */
const live = Effect.fnUntraced(function*(id: SandboxId) {
  const store = yield* SandboxStore
  for (const events of [[status("creating"), status("running")], [pull], [status("failed")]]) {
    yield* store.change(id, "policy", () => Result.succeed(events), yield* DateTime.now)
  }
  return (yield* store.log(id, 0, 100)).filter(({ wire }) => /"status":"(running|failed)"|pull_request/u.test(wire))
})

/**
 * The requests that the receiver got, verified by two libraries that share no code: `standardwebhooks` of the standard's authors, and the
 * check of `replicate`, a client of a service that signs by the same standard. The ids are compared with those of the `uuid` package.
 */
const verified = Effect.fnUntraced(function*(received: ReadonlyArray<WebhookReceiver.Received>, secret: string) {
  return yield* Effect.forEach(received, ({ body, headers }) =>
    Effect.promise(async () => {
      const header = (name: string) => String(headers[name])
      const [id, timestamp, signature] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")]
      const text = body.toString()
      const sent = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature }
      // Throws for a wrong signature, and for a time that is not now.
      new StandardWebhook(secret).verify(text, sent)
      assert.throws(() => new StandardWebhook(secret).verify(`${text} `, sent))
      const signed = { id, timestamp, signature, secret }
      assert.isTrue(await validateWebhook({ ...signed, body: text }))
      assert.isFalse(await validateWebhook({ ...signed, body: `${text} ` }))
      const { sandbox, ...event } = JSON.parse(text)
      assert.strictEqual(sandbox.id, event.sandbox_id)
      assert.strictEqual(id, v5(`${sandbox.id}/${event.id}`, "394a10f9-63c2-4153-8661-c29c08db4464"))
      return { sandboxId: String(sandbox.id), wire: JSON.stringify(event) }
    }))
})

/**
 * The first requests after the number `from` that the receiver got, so many, verified as they come: the standard refuses a request that is
 * older than five minutes.
 */
const arrivals = Effect.fnUntraced(function*(
  { receiver, secret }: Effect.Success<ReturnType<typeof listener>>,
  count: number,
  from = 0
) {
  const known: Array<{ readonly sandboxId: string; readonly wire: string }> = []
  while (known.length < count) {
    const come = yield* until(Effect.sync(() => receiver.received.slice(from + known.length)), ({ length }) => length > 0)
    known.push(...yield* verified(come, secret))
  }
  return Map.groupBy(known, ({ sandboxId }) => sandboxId)
})

const sandboxes = Number(process.env["NOTIFIED_SANDBOXES"] ?? 40)

layer(postgres, { excludeTestServices: true })("notifications", (it) => {
  it.effect(
    `${sandboxes} sandboxes and 5 endpoints, one of which fails: each gets every event once, in the order of its sandbox`,
    () =>
      Effect.gen(function*() {
        const { id: grantId } = yield* newGrant
        const good = yield* Effect.forEach([1, 2, 3, 4], () => listener(grantId))
        const bad = yield* listener(grantId)
        bad.receiver.answers.push(...Array.from({ length: sandboxes * 20 }, () => WebhookReceiver.status(500)))
        yield* worker
        yield* worker
        const told = yield* Effect.forkChild(Effect.all(good.map((one) => arrivals(one, 3 * sandboxes)), { concurrency: "unbounded" }))
        const logs = new Map(
          yield* Effect.forEach(
            Array.from({ length: sandboxes }, (_, n) => n),
            Effect.fnUntraced(function*(n) {
              const id = yield* create(grantId, n)
              return [id, yield* live(id)] as const
            }),
            { concurrency: 8 }
          )
        )
        for (const got of yield* Fiber.join(told)) {
          assert.strictEqual(got.size, sandboxes)
          for (const [id, entries] of logs) {
            assert.deepStrictEqual(got.get(id)?.map(({ wire }) => wire), entries.map(({ wire }) => wire))
          }
        }
        for (const { receiver } of good) assert.lengthOf(receiver.received, 3 * sandboxes)
        // Each sandbox waits for its own retry there.
        yield* until(Effect.sync(() => bad.receiver.received.length), (count) => count >= sandboxes)
        const first = new Set(Array.from(logs, ([id, [entry]]) => notificationId(id, entry?.seq ?? 0)))
        const failed = (yield* (yield* Webhooks).deliveries(grantId, bad.endpoint.id, { before: null, limit: 1000 })).deliveries
        for (const { eventId } of failed) assert.isTrue(first.has(eventId))
        // From here on everything is accepted: failed events come now, in order.
        const asked = bad.receiver.received.length
        bad.receiver.answers.length = 0
        yield* (yield* Webhooks).enable(grantId, bad.endpoint.id)
        const got = yield* arrivals(bad, 3 * sandboxes, asked)
        for (const [id, entries] of logs) {
          assert.deepStrictEqual(got.get(id)?.map(({ wire }) => wire), entries.map(({ wire }) => wire))
        }
      }),
    600_000 + sandboxes * 3_000
  )

  it.effect(
    "a receiver that fails for one sandbox is tried ten times, then goes on with the next event of it",
    () =>
      Effect.gen(function*() {
        const { id: grantId } = yield* newGrant
        const { endpoint, receiver, secret } = yield* listener(grantId)
        receiver.answers.push(...Array.from({ length: 10 }, () => WebhookReceiver.status(503)))
        const sql = yield* SqlClient.SqlClient
        const id = yield* create(grantId, 1)
        const [first, second, third] = yield* live(id)
        yield* worker
        // Only what waits: an attempt under way whose line is changed counts as outdated, and is repeated.
        const shift = sql`
          UPDATE notification_lines SET due_at = now() - interval '1 hour' WHERE endpoint_id = ${endpoint.id} AND due_at > now()`
        yield* until(Effect.andThen(shift, Effect.sync(() => receiver.received.length)), (count) => count >= 12)
        const wires = (yield* verified(receiver.received, secret)).map(({ wire }) => wire)
        assert.deepStrictEqual(wires, [...Array.from({ length: 10 }, () => first?.wire), second?.wire, third?.wire])
        const log = yield* until(
          Effect.map((yield* WebhookStore).deliveries({ grantId, id: endpoint.id }, { before: null, limit: 100 }), (page) => page),
          ({ length }) => length === 12
        )
        assert.deepStrictEqual(log.map(({ attempt }) => attempt), [1, 1, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
      }),
    120_000
  )

  it.effect(
    "a receiver that is gone is disabled at once, and one notification is sent again when somebody asks for it",
    () =>
      Effect.gen(function*() {
        const webhooks = yield* Webhooks
        const { id: grantId } = yield* newGrant
        const { endpoint, receiver } = yield* listener(grantId)
        receiver.answers.push(WebhookReceiver.status(410))
        const [first] = yield* live(yield* create(grantId, 1))
        yield* worker
        const { disabled } = yield* until(webhooks.find(grantId, endpoint.id), ({ disabled }) => disabled !== null)
        assert.strictEqual(disabled?.reason, "gone")
        assert.lengthOf(receiver.received, 1)
        const [failed] = (yield* webhooks.deliveries(grantId, endpoint.id, { before: null, limit: 10 })).deliveries
        yield* webhooks.redeliver(grantId, endpoint.id, failed?.eventId ?? "")
        yield* until(Effect.sync(() => receiver.received.length), (count) => count === 2)
        assert.deepStrictEqual(receiver.received[1]?.body, receiver.received[0]?.body)
        assert.include(receiver.received[0]?.body.toString(), first?.wire.slice(1, -1))
      }),
    120_000
  )

  it.effect(
    "a receiver that redirects to another address gets its notification again, and the other address gets nothing",
    () =>
      Effect.gen(function*() {
        const { id: grantId } = yield* newGrant
        const target = yield* WebhookReceiver.start()
        const { endpoint, receiver } = yield* listener(grantId)
        const location = `http://127.0.0.1:${target.port}/metadata`
        receiver.answers.push(...[301, 302, 303, 307, 308].map((status) => WebhookReceiver.status(status, { location })))
        const sql = yield* SqlClient.SqlClient
        yield* live(yield* create(grantId, 1))
        yield* worker
        // Only what waits: an attempt under way whose line is changed counts as outdated, and is repeated.
        const shift = sql`
          UPDATE notification_lines SET due_at = now() - interval '1 hour' WHERE endpoint_id = ${endpoint.id} AND due_at > now()`
        yield* until(Effect.andThen(shift, Effect.sync(() => receiver.received.length)), (count) => count >= 8)
        const log = yield* until(
          Effect.map((yield* Webhooks).deliveries(grantId, endpoint.id, { before: null, limit: 100 }), (page) => page.deliveries),
          ({ length }) => length === 8
        )
        const statuses = log.map(({ outcome }) => outcome._tag === "Answered" ? outcome.status : outcome.trouble)
        assert.deepStrictEqual(statuses.toReversed().slice(0, 5), [301, 302, 303, 307, 308])
        assert.lengthOf(target.received, 0)
      }),
    120_000
  )
})
