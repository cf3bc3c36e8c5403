/**
 * The rules that every `WebhookStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh grants make it repeatable on one database.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, type EndpointKey, LOG_RETENTION, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { MAX_ENDPOINTS, type Next, type Outcome, signing, type WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { notifications } from "./WebhookNotifications.ts"
import { type Requirements, WebhookFixture } from "./WebhookStates.ts"

export { WebhookFixture } from "./WebhookStates.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (minutes: number) => DateTime.add(at, { minutes })
const ok: Outcome = { _tag: "Answered", status: 204, retryAfter: null, body: null }
const broken: Outcome = { _tag: "Answered", status: 500, retryAfter: 7, body: "a \"quoted\" \\ body \u{1F680}" }
const delivered: Next = { _tag: "Delivered" }
const gone: Next = { _tag: "Disable", reason: "gone" }
const retry = (at: DateTime.Utc): Next => ({ _tag: "Retry", at })
const secretOf = (text: string) => Redacted.make(`whsec_${text}`)
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant
})
const register = Effect.fnUntraced(function*(grantId: string, types: WantedTypes | null = null, createdAt = at) {
  const id = yield* (yield* Ids).uuid7
  return yield* (yield* WebhookStore).register(
    { id, grantId, url: "https://hooks.example.com/?a='b'", types, createdAt },
    secretOf("first")
  )
})
/** Tells the feed of the grant of so many things; their events. */
const tell = Effect.fnUntraced(function*(grantId: string, types: ReadonlyArray<"project.connected" | "conversion.paid">) {
  const partners = yield* PartnerStore
  const ids = yield* Ids
  const head = (yield* partners.feed(grantId, 0, 1000)).length
  for (const type of types) {
    const data = { claimId: absent, leadId: "lead", variant: "a 'quoted' \\ variant", occurredAt: at }
    const id = yield* ids.uuid7
    const fact: PartnerFact = type === "project.connected"
      ? { type, data: { ...data, projectId: id } }
      : { type, data: { ...data, conversionId: id } }
    yield* partners.record(Effect.succeed({ result: undefined, tell: [{ grantId, fact }] }), at)
  }
  return yield* partners.feed(grantId, head, 1000)
})
const [connected, paid] = ["project.connected", "conversion.paid"] as const

/** Takes due deliveries and returns those of one endpoint; those of others stay due. */
const take = Effect.fnUntraced(function*({ id }: EndpointKey, now = at) {
  const store = yield* WebhookStore
  const held = yield* store.take(now, 1000)
  return held.filter(({ endpointId }) => endpointId === id)
})
const takeOne = Effect.fnUntraced(function*(key: EndpointKey, now = at) {
  const [one, ...more] = yield* take(key, now)
  assert(one !== undefined && more.length === 0, `${more.length + 1} were taken`)
  return one
})
const record = (held: TakenAttempt, next: Next, outcome: Outcome = broken, when = at) =>
  WebhookStore.use((store) => store.record(held, { at: when, durationMillis: 12, outcome }, next, when))
/** Delivers what is due; the sequences. */
const drain = Effect.fnUntraced(function*(key: EndpointKey, now = at) {
  const sequences: Array<number> = []
  for (let found = yield* take(key, now); found.length > 0; found = yield* take(key, now)) {
    for (const one of found) {
      sequences.push(one.event.sequence)
      yield* record(one, delivered, ok)
    }
  }
  return sequences
})
const find = (key: EndpointKey) => WebhookStore.use((store) => store.find(key))
const log = (key: EndpointKey, before: number | null = null, limit = 100) =>
  WebhookStore.use((store) => store.deliveries(key, { before, limit }))

const endpoints = (it: Writer<Requirements>) => {
  it.effect("gives back an endpoint as it was registered, to its grant alone", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const { id: other } = yield* newGrant
      const all = yield* register(grantId)
      const some = yield* register(grantId, [paid, connected], after(1))
      assert.deepStrictEqual(all, {
        id: all.id,
        grantId,
        url: "https://hooks.example.com/?a='b'",
        types: null,
        createdAt: at,
        cursor: 0,
        failures: 0,
        dueAt: at,
        disabled: null,
        refusingSince: null
      })
      assert.deepStrictEqual(some.types, [paid, connected])
      assert.deepStrictEqual(yield* store.list(grantId), [all, some])
      assert.deepStrictEqual(yield* find(all), all)
      assert.deepStrictEqual(yield* store.list(other), [])
      for (const key of [{ grantId: other, id: all.id }, { grantId, id: absent }]) {
        for (
          const asked of [
            store.find(key),
            store.remove(key, at),
            store.rotate(key, secretOf("x"), at),
            store.enable(key, at),
            store.deliveries(key, { before: null, limit: 1 }),
            store.redeliver(key, absent, at)
          ]
        ) assert.strictEqual((yield* Effect.flip<unknown, { readonly _tag: string }, never>(asked))._tag, "EndpointNotFound")
      }
      assert.deepStrictEqual(yield* find(all), all)
    }))

  it.effect("is never asked for an id that cannot be one, which is as unknown as another's; upper case is the same id", () =>
    Effect.gen(function*() {
      const webhooks = yield* Webhooks
      const { id: grantId } = yield* newGrant
      const [event] = yield* tell(grantId, [connected])
      const endpoint = yield* register(grantId)
      assert(event !== undefined)
      for (const id of ["", "wh_1", `${endpoint.id}0`, `${endpoint.id.slice(0, -1)}\0`, "'; --"]) {
        for (
          const asked of [
            webhooks.find(grantId, id),
            webhooks.remove(grantId, id),
            webhooks.rotateSecret(grantId, id),
            webhooks.enable(grantId, id),
            webhooks.deliveries(grantId, id, { before: null, limit: 1 }),
            webhooks.redeliver(grantId, id, event.id),
            webhooks.redeliver(grantId, absent, id)
          ]
        ) assert.strictEqual((yield* Effect.flip<unknown, { readonly _tag: string }, never>(asked))._tag, "EndpointNotFound")
        assert.strictEqual((yield* Effect.flip(webhooks.redeliver(grantId, endpoint.id, id)))._tag, "PartnerEventNotFound")
      }
      assert.deepStrictEqual(yield* webhooks.find(grantId, endpoint.id.toUpperCase()), endpoint)
      yield* webhooks.redeliver(grantId, endpoint.id.toUpperCase(), event.id.toUpperCase())
      assert.strictEqual((yield* takeOne(endpoint)).event.id, event.id)
    }).pipe(Effect.provide(Webhooks.layer.pipe(Layer.provide(Layer.mock(WebhookSender, {}))))))

  it.effect("lets a grant have so many endpoints and no more, also when many are registered at once", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const results = yield* Effect.forEach(Array.from({ length: MAX_ENDPOINTS + 5 }), () => Effect.result(register(grantId)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(results.filter(({ _tag }) => _tag === "Failure").length, 5)
      const store = yield* WebhookStore
      const [first] = yield* store.list(grantId)
      assert(first !== undefined)
      assert.strictEqual((yield* Effect.flip(register(grantId)))._tag, "TooManyEndpoints")
      yield* store.remove(first, at)
      yield* register(grantId)
      yield* register((yield* newGrant).id)
    }))
}

const delivery = (it: Writer<Requirements>) => {
  it.effect("tells an endpoint of what came after its registration, whole, one event at a time", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      yield* tell(grantId, [connected, connected])
      const endpoint = yield* register(grantId)
      assert.strictEqual(endpoint.cursor, 2)
      assert.deepStrictEqual(yield* take(endpoint), [])
      const [third, fourth] = yield* tell(grantId, [connected, paid])
      assert(third !== undefined && fourth !== undefined)
      const one = yield* takeOne(endpoint)
      assert.deepStrictEqual({ ...one, fence: 0, secrets: [] }, {
        endpointId: endpoint.id,
        url: endpoint.url,
        event: third,
        attempt: 1,
        manual: false,
        dueAt: at,
        fence: 0,
        secrets: []
      })
      assert.deepStrictEqual(one.secrets.map(({ until, value }) => [Redacted.value(value), until]), [["whsec_first", null]])
      assert.deepStrictEqual(yield* take(endpoint, after(60)), [])
      assert.isTrue(yield* record(one, delivered, ok, after(1)))
      assert.deepInclude(yield* find(endpoint), { cursor: 3, failures: 0 })
      assert.deepStrictEqual((yield* takeOne(endpoint, after(1))).event, fourth)
    }))

  it.effect("passes over types that an endpoint does not want, and reads them once", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId, [paid])
      yield* tell(grantId, [connected, connected])
      assert.deepStrictEqual(yield* take(endpoint), [])
      assert.deepInclude(yield* find(endpoint), { cursor: 2 })
      yield* tell(grantId, [connected, paid, connected, paid, connected])
      assert.deepStrictEqual(yield* drain(endpoint), [4, 6])
      assert.deepInclude(yield* find(endpoint), { cursor: 7 })
    }))

  it.effect("lets one failing event block its endpoint until the retry, and no other endpoint", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const [blocked, other] = [yield* register(grantId), yield* register(grantId)]
      yield* tell(grantId, [connected, connected, connected])
      yield* record(yield* takeOne(blocked), retry(after(5)))
      assert.deepInclude(yield* find(blocked), { cursor: 0, failures: 1, dueAt: after(5) })
      assert.deepStrictEqual(yield* take(blocked, DateTime.subtract(after(5), { milliseconds: 1 })), [])
      yield* (yield* WebhookFixture).expireTaken
      assert.deepStrictEqual(yield* drain(other), [1, 2, 3])
      const again = yield* takeOne(blocked, after(5))
      assert.deepStrictEqual([again.event.sequence, again.attempt], [1, 2])
      yield* record(again, delivered, ok, after(5))
      assert.deepStrictEqual(yield* drain(blocked, after(5)), [2, 3])
    }))

  it.effect("gives an attempt to one of many who ask at once", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const [event] = yield* tell(grantId, [connected])
      const given = yield* Effect.forEach(Array.from({ length: 8 }), () => take(endpoint), { concurrency: "unbounded" })
      assert.deepStrictEqual(given.flat().map((one) => one.event), [event])
    }))

  it.effect("gives no more than were asked for, and the rest to the next", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      // When nothing of other tests is due.
      const early = DateTime.makeUnsafe("2001-01-01T00:00:00.000Z")
      const keys = [yield* register(grantId, null, early), yield* register(grantId, null, early), yield* register(grantId, null, early)]
      yield* tell(grantId, [connected])
      assert.deepStrictEqual(yield* store.take(early, 0), [])
      const given = [yield* store.take(early, 2), yield* store.take(early, 2)]
      assert.deepStrictEqual(given.map(({ length }) => length), [2, 1])
      assert.deepStrictEqual(given.flat().map(({ endpointId }) => endpointId).sort(), keys.map(({ id }) => id).sort())
    }))
}

const attempts = (it: Writer<Requirements>) => {
  it.effect("gives the attempt of a worker that died to another one, and takes nothing more from the first", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected, connected])
      const lost = yield* takeOne(endpoint)
      assert.deepStrictEqual(yield* take(endpoint), [])
      yield* (yield* WebhookFixture).expireTaken
      const taken = yield* takeOne(endpoint)
      assert.deepStrictEqual([taken.event, taken.attempt], [lost.event, 1])
      assert.isAbove(taken.fence, lost.fence)
      assert.isFalse(yield* record(lost, delivered, ok))
      assert.deepInclude(yield* find(endpoint), { cursor: 0, failures: 0 })
      assert.deepStrictEqual(yield* log(endpoint), [])
      assert.isTrue(yield* record(taken, delivered, ok))
      // Not twice either.
      assert.isFalse(yield* record(taken, retry(after(5))))
      assert.deepInclude(yield* find(endpoint), { cursor: 1, failures: 0 })
      assert.lengthOf(yield* log(endpoint), 1)
    }))

  it.effect("accepts the record of an expired attempt if no other worker has taken it", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected])
      const late = yield* takeOne(endpoint)
      yield* (yield* WebhookFixture).expireTaken
      assert.isTrue(yield* record(late, delivered, ok))
    }))

  it.effect("tries a disabled endpoint no more, until it is enabled: it goes on with the first undelivered event", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected, connected])
      yield* record(yield* takeOne(endpoint), delivered, ok)
      yield* record(yield* takeOne(endpoint), retry(after(5)))
      yield* record(yield* takeOne(endpoint, after(5)), { _tag: "Disable", reason: "retries_exhausted" }, broken, after(6))
      const disabled = { cursor: 1, failures: 2, disabled: { at: after(6), reason: "retries_exhausted" as const } }
      assert.deepInclude(yield* find(endpoint), disabled)
      yield* tell(grantId, [connected])
      assert.deepStrictEqual(yield* take(endpoint, after(10_000)), [])
      const again = yield* store.enable(endpoint, after(20))
      assert.deepInclude(again, { cursor: 1, failures: 0, dueAt: after(20), disabled: null })
      assert.deepStrictEqual(yield* find(endpoint), again)
      assert.deepStrictEqual(yield* store.enable(endpoint, after(20)), again)
      assert.deepStrictEqual(yield* drain(endpoint, after(20)), [2, 3])
    }))

  it.effect("enabling ends the wait for a retry", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected])
      yield* record(yield* takeOne(endpoint), retry(after(5)))
      yield* (yield* WebhookStore).enable(endpoint, after(1))
      const one = yield* takeOne(endpoint, after(1))
      assert.strictEqual(one.attempt, 1)
    }))
}

const changesOfEndpoints = (it: Writer<Requirements>) => {
  it.effect("enabling during an attempt forgets what failed, that attempt included, and takes what it delivered", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected, connected])
      const told = yield* appended(Effect.gen(function*() {
        for (const [minutes, next] of [[1, retry(after(500))], [3, gone], [5, gone]] as const) {
          const held = yield* takeOne(endpoint, after(minutes))
          const again = yield* store.enable(endpoint, after(minutes + 1))
          assert.deepStrictEqual(yield* take(endpoint, after(minutes + 1)), [], "one attempt at a time")
          assert.isTrue(yield* record(held, next, broken, after(minutes + 2)))
          assert.deepStrictEqual(yield* find(endpoint), again)
        }
      }))
      assert.isEmpty(told)
      const held = yield* takeOne(endpoint, after(7))
      assert.deepStrictEqual([held.attempt, held.event.sequence], [1, 1])
      yield* store.enable(endpoint, after(8))
      assert.isTrue(yield* record(held, delivered, ok, after(9)))
      const last = yield* takeOne(endpoint, after(9))
      assert.strictEqual(last.event.sequence, 2)
      // An attempt without a recorded time is followed as usual.
      yield* record(last, gone, broken, after(10))
      assert.isNotNull((yield* find(endpoint)).disabled)
    }))

  it.effect("forgets an endpoint that is removed, with its log and what is on its way", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const [event] = yield* tell(grantId, [connected, connected])
      assert(event !== undefined)
      yield* record(yield* takeOne(endpoint), delivered, ok)
      const underWay = yield* takeOne(endpoint)
      yield* store.redeliver(endpoint, event.id, at)
      yield* store.remove(endpoint, at)
      assert.strictEqual((yield* Effect.flip(find(endpoint)))._tag, "EndpointNotFound")
      assert.strictEqual((yield* Effect.flip(store.remove(endpoint, at)))._tag, "EndpointNotFound")
      assert.deepStrictEqual(yield* store.list(grantId), [])
      assert.deepStrictEqual(yield* take(endpoint), [])
      assert.isFalse(yield* record(underWay, delivered, ok))
    }))

  it.effect("signs with the new secret, and with the ones before it for a day", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const day = 24 * 60
      assert.deepStrictEqual(yield* store.rotate(endpoint, secretOf("second"), at), endpoint)
      yield* store.rotate(endpoint, secretOf("third"), after(60))
      yield* tell(grantId, [connected])
      const { secrets } = yield* takeOne(endpoint)
      assert.deepStrictEqual(secrets.map(({ until, value }) => [Redacted.value(value), until]), [
        ["whsec_third", null],
        ["whsec_second", after(60 + day)],
        ["whsec_first", after(day)]
      ])
      assert.notInclude(JSON.stringify([yield* find(endpoint), secrets]), "whsec_")
      const signs = (minutes: number) => signing(secrets, after(minutes)).map(({ value }) => Redacted.value(value))
      assert.deepStrictEqual([signs(day), signs(60 + day)], [["whsec_third", "whsec_second"], ["whsec_third"]])
    }))

  it.effect("a secret that signs no longer does not come back with the next one", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const day = 24 * 60
      yield* store.rotate(endpoint, secretOf("second"), at)
      yield* store.rotate(endpoint, secretOf("third"), after(2 * day))
      yield* tell(grantId, [connected])
      const { secrets } = yield* takeOne(endpoint, after(2 * day))
      const signs = signing(secrets, after(2 * day)).map(({ until, value }) => [Redacted.value(value), until])
      assert.deepStrictEqual(signs, [["whsec_third", null], ["whsec_second", after(3 * day)]])
    }))
}

/** State that a process of another clock has written. */
const otherClocks = (it: Writer<Requirements>) => {
  it.effect("a secret of a process with a late clock is the current one, and each before it signs for a day of its own clock", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const day = 24 * 60
      yield* store.rotate(endpoint, secretOf("second"), after(10))
      yield* store.rotate(endpoint, secretOf("third"), after(5))
      yield* tell(grantId, [connected])
      const { secrets } = yield* takeOne(endpoint)
      assert.deepStrictEqual(secrets.map(({ until, value }) => [Redacted.value(value), until]), [
        ["whsec_third", null],
        ["whsec_second", after(5 + day)],
        ["whsec_first", after(10 + day)]
      ])
    }))
}

const attemptLog = (it: Writer<Requirements>) => {
  it.effect("logs every attempt, newest first, page by page", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const [first, second] = yield* tell(grantId, [connected, connected])
      assert(first !== undefined && second !== undefined)
      const timeout: Outcome = { _tag: "Failed", trouble: "timeout" }
      yield* record(yield* takeOne(endpoint), retry(after(1)), broken)
      yield* record(yield* takeOne(endpoint, after(1)), retry(after(2)), timeout, after(1))
      yield* record(yield* takeOne(endpoint, after(2)), delivered, ok, after(2))
      yield* record(yield* takeOne(endpoint, after(2)), delivered, ok, after(2))
      const all = yield* log(endpoint)
      const entry = (eventId: string, sequence: number, attempt: number, minutes: number, outcome: Outcome) => ({
        eventId,
        sequence,
        notification: null,
        attempt,
        manual: false,
        at: after(minutes),
        durationMillis: 12,
        outcome
      })
      assert.deepStrictEqual(all.map(({ position: _position, ...rest }) => rest), [
        entry(second.id, 2, 1, 2, ok),
        entry(first.id, 1, 3, 2, ok),
        entry(first.id, 1, 2, 1, timeout),
        entry(first.id, 1, 1, 0, broken)
      ])
      const positions = all.map(({ position }) => position)
      assert.deepStrictEqual(positions, positions.toSorted((a, b) => b - a))
      const page = yield* log(endpoint, null, 3)
      assert.deepStrictEqual([...page, ...(yield* log(endpoint, page.at(-1)?.position ?? 0, 3))], all)
    }))

  it.effect("sends one event again beside the line, once for each time it is asked for", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId, [paid])
      const [event, next] = yield* tell(grantId, [connected, paid])
      assert(event !== undefined && next !== undefined)
      const inLine = yield* takeOne(endpoint)
      for (const minutes of [0, 1]) yield* store.redeliver(endpoint, event.id, after(minutes))
      const given = yield* Effect.forEach([1, 2, 3], () => take(endpoint), { concurrency: "unbounded" })
      const [manual, ...more] = given.flat()
      assert(manual !== undefined && more.length === 0)
      assert.deepStrictEqual([manual.event, manual.manual, manual.attempt], [event, true, 1])
      assert.isTrue(yield* record(manual, gone))
      assert.isFalse(yield* record(manual, gone))
      assert.deepInclude(yield* find(endpoint), { cursor: 1, disabled: null })
      assert.isTrue(yield* record(inLine, gone))
      // A disabled endpoint can be tried too.
      yield* store.redeliver(endpoint, next.id, at)
      yield* record(yield* takeOne(endpoint), delivered, ok)
      assert.deepInclude(yield* find(endpoint), { cursor: 1 })
      assert.deepStrictEqual((yield* log(endpoint)).map(({ eventId, manual, sequence }) => [eventId, sequence, manual]), [
        [next.id, 2, true],
        [next.id, 2, false],
        [event.id, 1, true]
      ])
    }))

  it.effect("sends again one event of an endpoint at a time, and nothing in line waits for what somebody asked for", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      // When nothing of other tests is due.
      const early = DateTime.makeUnsafe("2000-01-01T00:00:00.000Z")
      const endpoint = yield* register(grantId, null, early)
      const events = yield* tell(grantId, [connected, paid, connected])
      for (const [i, { id }] of events.entries()) yield* store.redeliver(endpoint, id, DateTime.add(early, { minutes: i }))
      const taken = yield* store.take(early, 1)
      assert.deepStrictEqual(taken.map(({ endpointId, manual }) => [endpointId, manual]), [[endpoint.id, false]])
      for (const event of events) {
        const manual = yield* takeOne(endpoint, early)
        assert.deepStrictEqual([manual.event, manual.manual], [event, true])
        assert.deepStrictEqual(yield* take(endpoint, early), [])
        yield* record(manual, delivered, ok)
      }
      assert.deepStrictEqual(yield* take(endpoint, early), [])
    }))
}

const manualAttempts = (it: Writer<Requirements>) => {
  it.effect("waits once with an event that is asked for again while it is on its way", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const [event] = yield* tell(grantId, [connected])
      const endpoint = yield* register(grantId)
      assert(event !== undefined)
      yield* store.redeliver(endpoint, event.id, at)
      const manual = yield* takeOne(endpoint)
      yield* store.redeliver(endpoint, event.id, after(1))
      assert.deepStrictEqual(yield* take(endpoint), [])
      assert.isTrue(yield* record(manual, delivered, ok))
      assert.deepStrictEqual(yield* take(endpoint), [])
      assert.lengthOf(yield* log(endpoint), 1)
    }))

  it.effect("leaves half to what somebody asked for, however much is in line", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      // When nothing of other tests is due.
      const early = DateTime.makeUnsafe("1999-01-01T00:00:00.000Z")
      const keys = [yield* register(grantId, null, early), yield* register(grantId, null, early)]
      const [event] = yield* tell(grantId, [connected])
      for (const key of keys) yield* store.redeliver(key, event?.id ?? "", early)
      const taken = [yield* store.take(early, 2), yield* store.take(early, 2)]
      assert.deepStrictEqual(taken.map((some) => some.map(({ manual }) => manual).toSorted()), [[false, true], [false, true]])
      yield* Effect.forEach(taken.flat(), (one) => record(one, delivered, ok))
    }))

  it.effect("repeats a manual attempt of a worker that died", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const [event] = yield* tell(grantId, [connected])
      const endpoint = yield* register(grantId)
      assert(event !== undefined)
      yield* store.redeliver(endpoint, event.id, at)
      const lost = yield* takeOne(endpoint)
      assert.deepStrictEqual(yield* take(endpoint), [])
      yield* (yield* WebhookFixture).expireTaken
      const taken = yield* takeOne(endpoint)
      assert.isFalse(yield* record(lost, delivered, ok))
      assert.isTrue(yield* record(taken, delivered, ok))
    }))

  it.effect("sends no event again that is not in the grant's feed", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const [foreign] = yield* tell((yield* newGrant).id, [connected])
      const endpoint = yield* register(grantId)
      for (const id of [absent, foreign?.id ?? ""]) {
        assert.strictEqual((yield* Effect.flip(store.redeliver(endpoint, id, at)))._tag, "PartnerEventNotFound")
      }
    }))

  it.effect("sends nothing for a grant that is revoked or whose organization is suspended", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const members = yield* MemberStore
      const grant = yield* newGrant
      const [endpoint, ending] = [yield* register(grant.id), yield* register((yield* newGrant).id)]
      const [event] = yield* tell(grant.id, [connected])
      const [other] = yield* tell(ending.grantId, [connected])
      yield* store.redeliver(endpoint, event?.id ?? "", at)
      yield* store.redeliver(ending, other?.id ?? "", at)
      yield* members.suspend(grant.organizationId, true, at)
      assert.deepStrictEqual([...yield* take(endpoint), ...yield* take(ending)], [])
      yield* members.suspend(grant.organizationId, false, at)
      yield* (yield* AccessStore).revokeGrant(ending.grantId, at)
      const held = yield* store.take(at, 1000)
      assert.deepStrictEqual(held.filter(({ endpointId }) => endpointId === endpoint.id).map(({ manual }) => manual), [true, false])
      assert.deepStrictEqual(held.filter(({ endpointId }) => endpointId === ending.id), [])
    }))
}

const pruningAndAudit = (it: Writer<Requirements>) => {
  it.effect("forgets what is older than the log is kept, so many at a time", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      yield* tell(grantId, [connected, connected, connected])
      const old = DateTime.makeUnsafe("2001-01-01T00:00:00.000Z")
      yield* record(yield* takeOne(endpoint), delivered, ok, old)
      yield* record(yield* takeOne(endpoint), delivered, ok, DateTime.add(old, { minutes: 1 }))
      yield* record(yield* takeOne(endpoint), delivered, ok, DateTime.add(old, { minutes: 2 }))
      const before = DateTime.add(old, { minutes: 2 })
      assert.deepStrictEqual([yield* store.purge(before, 1), yield* store.purge(before, 5), yield* store.purge(before, 5)], [1, 1, 0])
      assert.deepStrictEqual((yield* log(endpoint)).map(({ sequence }) => sequence), [3])
      assert.isTrue(DateTime.isLessThan(DateTime.addDuration(old, LOG_RETENTION), at))
    }))

  it.effect("forgets so many attempts at a time in all, however many endpoints they are of", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const old = DateTime.makeUnsafe("2001-02-01T00:00:00.000Z")
      const before = DateTime.add(old, { minutes: 1 })
      yield* store.purge(before, 1000)
      for (const _ of [1, 2, 3]) {
        const { id: grantId } = yield* newGrant
        const endpoint = yield* register(grantId)
        yield* tell(grantId, [connected, connected])
        for (const _ of [1, 2]) yield* record(yield* takeOne(endpoint), delivered, ok, old)
      }
      assert.deepStrictEqual([yield* store.purge(before, 4), yield* store.purge(before, 4), yield* store.purge(before, 4)], [4, 2, 0])
    }))

  it.effect("tells the audit log what happened to endpoints, once each, and no secret", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      yield* tell(grantId, [connected])
      let endpointId = ""
      const told = yield* appended(Effect.gen(function*() {
        const endpoint = yield* register(grantId)
        endpointId = endpoint.id
        yield* tell(grantId, [connected])
        yield* store.rotate(endpoint, secretOf("second"), after(1))
        yield* store.enable(endpoint, after(1))
        const held = yield* takeOne(endpoint, after(1))
        for (const _ of [1, 2]) yield* record(held, gone, broken, after(2))
        for (const _ of [1, 2]) yield* store.enable(endpoint, after(3))
        yield* store.remove(endpoint, after(4))
      }))
      const event = (action: string, minutes: number, more: object = {}) => ({
        action,
        at: after(minutes),
        subjects: { endpointId, grantId, ...more }
      })
      assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
        event("webhook.registered", 0),
        event("webhook.secret_rotated", 1),
        event("webhook.disabled", 2, { reason: "gone" }),
        event("webhook.enabled", 3),
        event("webhook.deleted", 4)
      ])
    }))
}

export const suite = (name: string, layer: Layer.Layer<Requirements, unknown>) =>
  define(`WebhookStore (${name})`, layer, (it) => {
    endpoints(it)
    delivery(it)
    attempts(it)
    changesOfEndpoints(it)
    otherClocks(it)
    attemptLog(it)
    manualAttempts(it)
    pruningAndAudit(it)
    notifications(it)
  })
