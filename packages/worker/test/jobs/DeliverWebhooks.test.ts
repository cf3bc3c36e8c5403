/** Webhooks from the feed to a receiver: Postgres, workers, HTTP. Nothing waits for a retry: what is due later is made due. */
import { assert, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { LOG_RETENTION, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { bodyOf, type Endpoint, JITTER, type Outcome, signing, WAITS } from "@slipway/domain/partner/rules/Webhook"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as WebhookReceiver from "@slipway/machine/testing/WebhookReceiver"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/postgres/partner-store/PartnerStorePostgres"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import { Timing } from "@slipway/worker/shared/Timing"
import { DateTime, Duration, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"

const postgres = Webhooks.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      PartnerStorePostgres.layer,
      WebhookStorePostgres.layer.pipe(Layer.provide(SecretsKey.layerEphemeral)),
      WebhookSenderHttp.layer({ allowPrivate: true })
    )
  ),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

/** Looks until it is as wanted; the test's own time limit is the bound. */
const until = <A, E, R>(look: Effect.Effect<A, E, R>, wanted: (value: A) => boolean): Effect.Effect<A, E, R> =>
  Effect.filterOrElse(look, wanted, () => Effect.delay(until(look, wanted), "5 millis"))
/** Waits for an answer only as long as it takes to see that there is none. */
const impatient = WebhookSenderHttp.layer({ allowPrivate: true, attemptTime: Duration.millis(200) })
/** A worker, and how to end it gently. */
const worker = Effect.gen(function*() {
  const scope = yield* Scope.fork(yield* Effect.scope)
  yield* DeliverWebhooks.start().pipe(
    Scope.provide(scope),
    Effect.provideService(Timing, { ...(yield* Timing), tick: Duration.millis(20) })
  )
  return { stop: Scope.close(scope, Exit.void) }
})

const partner = Effect.fnUntraced(function*(port: number) {
  const { grant } = yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)
  const { endpoint } = yield* (yield* Webhooks).register(grant.id, { url: `http://127.0.0.1:${port}/hook`, types: null })
  return endpoint
})
const tell = Effect.fnUntraced(function*(grantId: string, count: number) {
  const partners = yield* PartnerStore
  const ids = yield* Ids
  for (let n = 0; n < count; n++) {
    const conversionId = yield* ids.uuid7
    const at = yield* DateTime.now
    const data = { claimId: conversionId, leadId: "lead \u{1F680}", variant: "b", occurredAt: at, conversionId }
    yield* partners.record(Effect.succeed({ result: undefined, tell: [{ grantId, fact: { type: "conversion.paid", data } }] }), at)
  }
  return yield* partners.feed(grantId, 0, 1000)
})
const find = ({ grantId, id }: Endpoint) => Effect.flatMap(Webhooks, (webhooks) => webhooks.find(grantId, id))
const log = ({ grantId, id }: Endpoint) =>
  Effect.map(
    Effect.flatMap(Webhooks, (webhooks) => webhooks.deliveries(grantId, id, { before: null, limit: 100 })),
    ({ deliveries }) => deliveries
  )
const idsOf = (received: ReadonlyArray<WebhookReceiver.Received>) => received.map(({ headers }) => headers["webhook-id"])
const shift = (endpoint: Endpoint) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE webhook_endpoints SET due_at = least(due_at, created_at) WHERE id = ${endpoint.id}`
  )
const expireTaken = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE webhook_endpoints SET claimed_until = now() WHERE claimed_until IS NOT NULL`
)
/** An endpoint of a receiver that is there, with so many events to be told of. */
const scenario = Effect.fnUntraced(function*(count: number) {
  const receiver = yield* WebhookReceiver.start()
  const endpoint = yield* partner(receiver.port)
  return { receiver, endpoint, feed: yield* tell(endpoint.grantId, count) }
})

/** A port without a listener, on which no other test may begin to listen. */
const NOBODY = 1

const failures: ReadonlyArray<readonly [name: string, answer: WebhookReceiver.Answer | null, outcome: Outcome]> = [
  ["is down", null, { _tag: "Failed", trouble: "connection" }],
  ["answers 500", WebhookReceiver.status(500, {}, "broken"), { _tag: "Answered", status: 500, retryAfter: null, body: "broken" }],
  ["sends elsewhere", WebhookReceiver.status(302, { location: "http://127.0.0.1:1/" }), {
    _tag: "Answered",
    status: 302,
    retryAfter: null,
    body: null
  }],
  ["resets the connection", WebhookReceiver.reset, { _tag: "Failed", trouble: "connection" }],
  ["never answers", WebhookReceiver.hang, { _tag: "Failed", trouble: "timeout" }]
]

layer(postgres, { excludeTestServices: true })("webhooks", (it) => {
  for (const [name, answer, outcome] of failures) {
    it.effect(`a receiver that ${name} is tried ten times, then disabled, and goes on where it was once it is enabled`, () =>
      Effect.gen(function*() {
        const { endpoint, feed, receiver } = yield* scenario(2)
        const target = answer === null ? yield* partner(NOBODY) : endpoint
        const events = answer === null ? yield* tell(target.grantId, 2) : feed
        if (answer !== null) receiver.answers.push(...Array.from({ length: 10 }, () => answer))
        const { stop } = yield* answer === WebhookReceiver.hang ? Effect.provide(worker, impatient) : worker
        for (const [n, wait] of [...WAITS.entries(), [WAITS.length, null] as const]) {
          const { disabled, dueAt } = yield* until(find(target), ({ failures }) => failures === n + 1)
          if (wait === null) {
            assert.strictEqual(disabled?.reason, "retries_exhausted")
            break
          }
          const [made] = yield* log(target)
          assert(made !== undefined)
          const [ahead, least] = [dueAt.epochMilliseconds - made.at.epochMilliseconds - made.durationMillis, Duration.toMillis(wait)]
          assert.isAtLeast(ahead, least)
          assert.isAtMost(ahead, Math.ceil(least * (1 + JITTER)))
          yield* shift(target)
        }
        const entries = yield* log(target)
        assert.deepStrictEqual(entries.map(({ attempt }) => attempt), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
        for (const entry of entries) assert.deepStrictEqual([entry.outcome, entry.eventId, entry.manual], [outcome, events[0]?.id, false])
        const later = yield* (yield* WebhookStore).take(DateTime.add(yield* DateTime.now, { days: 7 }), 1000)
        assert.notInclude(later.map(({ endpointId }) => endpointId), target.id)
        const told = (yield* (yield* AuditLog).list({ since: null, limit: 1000 })).filter(({ subjects }) =>
          subjects["endpointId"] === target.id
        )
        assert.deepStrictEqual(told.map(({ action, subjects }) => [action, subjects["reason"]]), [["webhook.registered", undefined], [
          "webhook.disabled",
          "retries_exhausted"
        ]])
        if (answer === null) return
        assert.deepStrictEqual(idsOf(receiver.received), Array.from({ length: 10 }, () => events[0]?.id))
        yield* stop
        yield* worker
        yield* (yield* Webhooks).enable(target.grantId, target.id)
        yield* until(find(target), ({ cursor }) => cursor === 2)
        assert.deepStrictEqual(idsOf(receiver.received).slice(10), events.map(({ id }) => id))
      }))
  }

  it.effect("a receiver that is gone is disabled at once", () =>
    Effect.gen(function*() {
      const { endpoint, receiver } = yield* scenario(2)
      receiver.answers.push(WebhookReceiver.status(410))
      yield* worker
      const { disabled, failures } = yield* until(find(endpoint), ({ disabled }) => disabled !== null)
      assert.deepStrictEqual([disabled?.reason, failures], ["gone", 1])
      assert.lengthOf(receiver.received, 1)
    }))

  it.effect("a receiver that asks for time gets it", () =>
    Effect.gen(function*() {
      const { endpoint, receiver } = yield* scenario(1)
      receiver.answers.push(WebhookReceiver.status(429, { "retry-after": "600" }))
      yield* worker
      const { dueAt } = yield* until(find(endpoint), ({ failures }) => failures === 1)
      const ahead = dueAt.epochMilliseconds - (yield* DateTime.now).epochMilliseconds
      assert.isAtLeast(ahead, 600_000)
      assert.isAtMost(ahead, 720_000)
    }))

  it.effect("a receiver that hangs holds up no other", () =>
    Effect.gen(function*() {
      const slow = yield* scenario(1)
      slow.receiver.answers.push(WebhookReceiver.hang)
      const quick = yield* scenario(20)
      yield* worker
      yield* slow.receiver.next
      yield* until(find(quick.endpoint), ({ cursor }) => cursor === 20)
      assert.deepStrictEqual(idsOf(quick.receiver.received), quick.feed.map(({ id }) => id))
      assert.deepInclude(yield* find(slow.endpoint), { cursor: 0, failures: 0 })
    }))

  it.effect(
    "what receivers got is the feed: the same ids in the same order, whatever fails and however many workers there are",
    () =>
      Effect.gen(function*() {
        const others = [yield* scenario(0), yield* scenario(0), yield* scenario(0)]
        const answers = [WebhookReceiver.status(204), WebhookReceiver.status(200, {}, "ok"), WebhookReceiver.status(503),
          WebhookReceiver.reset, WebhookReceiver.status(307)]
        // In no order that repeats soon.
        const flaky = Array.from({ length: 1000 }, (_, n) => answers[(n * 3 + Math.floor(n / 4)) % answers.length] ?? WebhookReceiver.hang)
        for (const { receiver } of others) receiver.answers.push(...flaky)
        yield* worker
        yield* worker
        yield* worker
        // While they are at it, more is told.
        yield* Effect.forEach(others, ({ endpoint }) => tell(endpoint.grantId, 25), { concurrency: "unbounded" })
        for (const { endpoint, receiver } of others) {
          // No wait takes long, and no event fails often enough to disable its endpoint.
          yield* until(
            Effect.andThen(Effect.forEach(others, ({ endpoint }) => shift(endpoint)), find(endpoint)),
            ({ cursor, disabled, failures }) => {
              if (failures >= 5) receiver.answers.length = 0
              return cursor === 25 || disabled !== null
            }
          )
          const feed = yield* (yield* PartnerStore).feed(endpoint.grantId, 0, 1000)
          const inOrder = idsOf(receiver.received).filter((id, i, all) => id !== all[i - 1])
          assert.deepStrictEqual(inOrder, feed.map(({ id }) => id))
          const delivered = (yield* log(endpoint)).filter(({ outcome }) => outcome._tag === "Answered" && outcome.status < 300).toReversed()
          assert.deepStrictEqual(
            delivered.map(({ eventId, sequence }) => [eventId, sequence]),
            feed.map(({ id, sequence }) => [id, sequence])
          )
          for (const { body, headers } of receiver.received) {
            const event = feed.find(({ id }) => id === headers["webhook-id"])
            assert.strictEqual(body.toString(), event === undefined ? "" : bodyOf(event))
          }
        }
      })
  )

  it.effect("what a worker sent and did not record before it died is sent again under the same id, by another one", () =>
    Effect.gen(function*() {
      const { endpoint, feed, receiver } = yield* scenario(3)
      const store = yield* WebhookStore
      const at = yield* DateTime.now
      const lost = (yield* store.take(at, 1000)).find(({ endpointId }) => endpointId === endpoint.id)
      assert(lost !== undefined)
      const { event, secrets, url } = lost
      yield* (yield* WebhookSender).send({
        url,
        id: event.id,
        at,
        body: bodyOf(event),
        secrets: signing(secrets, at).map(({ value }) => value)
      })
      const other = yield* scenario(1)
      yield* worker
      yield* until(find(other.endpoint), ({ cursor }) => cursor === 1)
      // The one who taken it may still be at it.
      assert.lengthOf(receiver.received, 1)
      yield* expireTaken
      yield* until(find(endpoint), ({ cursor }) => cursor === 3)
      assert.deepStrictEqual(idsOf(receiver.received), [feed[0]?.id, ...feed.map(({ id }) => id)])
      assert.isFalse(
        yield* store.record(lost, { at, durationMillis: 0, outcome: { _tag: "Failed", trouble: "timeout" } }, { _tag: "Retry", at }, at)
      )
      assert.deepInclude(yield* find(endpoint), { cursor: 3, failures: 0 })
    }))

  it.effect("a worker that is stopped records what is answered in its last moment, and begins nothing more", () =>
    Effect.gen(function*() {
      const { endpoint, feed, receiver } = yield* scenario(2)
      let answer = () => {}
      receiver.answers.push((response) => {
        answer = () => void response.writeHead(204).end()
      })
      // The moment is as long as Postgres takes, however busy the machine is.
      const { stop } = yield* Effect.provideService(worker, Timing, { ...(yield* Timing), lastAttempts: Duration.infinity })
      yield* receiver.next
      const stopping = yield* Effect.forkChild(stop, { startImmediately: true })
      answer()
      yield* Fiber.join(stopping)
      assert.deepInclude(yield* find(endpoint), { cursor: 1 })
      assert.deepStrictEqual(idsOf(receiver.received), [feed[0]?.id])
    }))

  it.effect("one event is sent again when somebody asks for it, beside the line", () =>
    Effect.gen(function*() {
      const { endpoint, feed, receiver } = yield* scenario(3)
      yield* worker
      yield* until(find(endpoint), ({ cursor }) => cursor === 3)
      yield* (yield* Webhooks).redeliver(endpoint.grantId, endpoint.id, feed[1]?.id ?? "")
      const [newest] = yield* until(log(endpoint), ({ length }) => length === 4)
      assert(newest !== undefined)
      assert.deepStrictEqual([newest.eventId, newest.manual], [feed[1]?.id, true])
      assert.deepStrictEqual(idsOf(receiver.received), [...feed, feed[1]].map((event) => event?.id))
      assert.deepStrictEqual(receiver.received[3]?.body, receiver.received[1]?.body)
    }))

  it.effect("the log is kept for 30 days", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* scenario(1)
      yield* worker
      yield* until(log(endpoint), ({ length }) => length === 1)
      const sql = yield* SqlClient.SqlClient
      const began = (before: Duration.Duration) => {
        const seconds = Duration.toSeconds(before)
        return sql`UPDATE webhook_deliveries SET at = now() - make_interval(secs => ${seconds}) WHERE endpoint_id = ${endpoint.id}`
      }
      yield* began(Duration.subtract(LOG_RETENTION, Duration.hours(1)))
      yield* DeliverWebhooks.purgeLog()
      assert.lengthOf(yield* log(endpoint), 1)
      yield* began(Duration.sum(LOG_RETENTION, Duration.hours(1)))
      // A worker does it when it starts.
      yield* worker
      yield* until(log(endpoint), ({ length }) => length === 0)
    }))
})
