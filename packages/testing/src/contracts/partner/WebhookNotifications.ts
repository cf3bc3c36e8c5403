/** The rules of notifications that every `WebhookStore` and every `SandboxStore` beside it must keep: a part of `WebhookStoreContract`. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { type EndpointKey, type TakenNotification, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import {
  MAX_AT_ENDPOINT,
  MAX_OF_GRANT,
  MAX_QUEUED,
  type NextOfLine,
  notificationBody,
  notificationId
} from "@slipway/domain/partner/rules/Notification"
import type { Next, Outcome, WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Creation } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { assert } from "../../suite/Assert.ts"
import type { Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"
import { type Requirements, WebhookFixture } from "./WebhookStates.ts"

const at = DateTime.makeUnsafe("2026-11-22T02:41:00.123Z")
const after = (minutes: number) => DateTime.add(at, { minutes })
const day = 24 * 60
const ok: Outcome = { _tag: "Answered", status: 200, retryAfter: null, body: null }
const broken: Outcome = { _tag: "Answered", status: 500, retryAfter: null, body: "broken" }
const delivered: NextOfLine = { _tag: "Delivered" }
const retry = (minutes: number): NextOfLine => ({ _tag: "Retry", at: after(minutes) })
const published: WantedTypes = ["pull_request.updated"]

const newGrant = Effect.gen(function*() {
  return (yield* (yield* Access).createGrant(yield* (yield* Ids).uuid7)).grant
})
const register = Effect.fnUntraced(function*(grantId: string, types: WantedTypes | null = published) {
  const id = yield* (yield* Ids).uuid7
  const endpoint = { id, grantId, url: "https://hooks.example.com/", types, createdAt: at }
  return yield* (yield* WebhookStore).register(endpoint, Redacted.make("whsec_first"))
})
const sandboxOf = Effect.fnUntraced(function*(grantId: string, createdAt = at) {
  const id = SandboxId.make(`c_${yield* (yield* Ids).random(ID_ALPHABET, 12)}`)
  const creation: Creation = {
    id,
    grantId,
    createdBy: "user_01J00000000000000000000000",
    title: "Tïtle 'quoted' \\ \u{1F680}",
    repos: [{ fullName: "acme/Shop", ref: "main" }, { fullName: "acme/other" }],
    prompt: "a prompt",
    model: offlineDemo.id,
    agentRuntime: offlineDemo.agentRuntime,
    reasoningEffort: null,
    toolApprovalMode: "prompt",
    metadata: { customer: "42", "a \"quote\"": "b" },
    origin: null,
    continues: null,
    createdAt
  }
  return (yield* (yield* SandboxStore).create({ creation, keyed: null })).sandbox
})
const write = Effect.fnUntraced(function*(id: SandboxId, events: ReadonlyArray<SandboxEvent>, when = at) {
  return (yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed(events), when)).sandbox
})
const pull = (repo = "acme/Shop"): SandboxEvent => ({ type: "pull_request.updated", data: { repo, action_state: "publishing" } })
/** Writes so many events that endpoints may want; their numbers. */
const publish = Effect.fnUntraced(function*(id: SandboxId, count = 1, when = at) {
  const { lastSeq } = yield* write(id, Array.from({ length: count }, () => pull()), when)
  return Array.from({ length: count }, (_, i) => lastSeq - count + i + 1)
})
/** Writes an event of the grant's feed. */
const connect = Effect.fnUntraced(function*(grantId: string) {
  const ids = yield* Ids
  const data = { claimId: yield* ids.uuid7, leadId: "lead", variant: "v", occurredAt: at, projectId: yield* ids.uuid7 }
  const fact = { type: "project.connected" as const, data }
  yield* (yield* PartnerStore).record(Effect.succeed({ result: undefined, tell: [{ grantId, fact }] }), at)
})
const status = (to: "creating" | "running" | "failed" | "succeeded"): SandboxEvent => ({
  type: "sandbox.status",
  data: { status: to, previous: "queued", reason: null, initiator: "system" }
})

const take = Effect.fnUntraced(function*({ id }: EndpointKey, now = at) {
  const taken = yield* (yield* WebhookStore).takeNotifications(now, 1000)
  return taken.filter(({ endpointId }) => endpointId === id)
})
const takeOne = Effect.fnUntraced(function*(key: EndpointKey, now = at) {
  const [one, ...more] = yield* take(key, now)
  assert(one !== undefined && more.length === 0, `${more.length + 1} were taken`)
  return one
})
const record = (taken: TakenNotification, next: NextOfLine, outcome: Outcome = broken, when = at) =>
  WebhookStore.use((store) => store.recordNotification(taken, { at: when, durationMillis: 12, outcome }, next, when))
const deliver = (taken: TakenNotification, when = at) => record(taken, delivered, ok, when)
/** Delivers what is due; each as its sandbox and number. */
const drain = Effect.fnUntraced(function*(key: EndpointKey, now = at) {
  const told: Array<readonly [SandboxId, number]> = []
  for (let found = yield* take(key, now); found.length > 0; found = yield* take(key, now)) {
    for (const one of found) {
      told.push([one.notification.sandboxId, one.notification.seq])
      yield* deliver(one, now)
    }
  }
  return told
})
const seqs = (told: ReadonlyArray<readonly [SandboxId, number]>) => told.map(([, seq]) => seq)
const find = (key: EndpointKey) => WebhookStore.use((store) => store.find(key))
const log = (key: EndpointKey) => WebhookStore.use((store) => store.deliveries(key, { before: null, limit: 100 }))

const queue = (it: Writer<Requirements>) => {
  it.effect("tells an endpoint of the events of sandboxes that it wants, as their log has them, one at a time and in order", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const early = yield* sandboxOf(grantId)
      yield* publish(early.id)
      const endpoint = yield* register(grantId, ["pull_request.updated", "sandbox.failed"])
      const { id } = yield* sandboxOf(grantId)
      yield* write(id, [status("creating"), status("running"), pull("acme/Shop")])
      yield* write(id, [{ type: "sandbox.renamed", data: { title: "Later" } }, pull("acme/other")], after(1))
      const entries = yield* (yield* SandboxStore).log(id, 0, 100)
      const [first, second] = entries.filter(({ type }) => type === "pull_request.updated")
      assert(first !== undefined && second !== undefined)
      const one = yield* takeOne(endpoint, after(1))
      assert.deepStrictEqual({ ...one, fence: 0, secrets: [] }, {
        endpointId: endpoint.id,
        url: endpoint.url,
        notification: {
          sandboxId: id,
          seq: first.seq,
          type: "pull_request.updated",
          wire: first.wire,
          sandbox: {
            title: early.title,
            status: "running",
            repos: early.repos,
            metadata: early.metadata
          }
        },
        attempt: 1,
        manual: false,
        dueAt: at,
        fence: 0,
        secrets: []
      })
      assert.deepStrictEqual(one.secrets.map(({ until, value }) => [Redacted.value(value), until]), [["whsec_first", null]])
      const { sandbox, ...event } = JSON.parse(notificationBody(one.notification))
      assert.strictEqual(JSON.stringify(event), first.wire)
      assert.deepStrictEqual(sandbox, { id, title: early.title, status: "running", repos: early.repos, metadata: early.metadata })
      assert.deepStrictEqual(yield* take(endpoint, after(60)), [])
      assert.isTrue(yield* deliver(one, after(2)))
      const two = yield* takeOne(endpoint, after(2))
      assert.deepStrictEqual([two.notification.seq, two.notification.sandbox.title], [second.seq, "Later"])
      yield* deliver(two, after(2))
      yield* write(id, [status("failed")], after(3))
      const last = yield* takeOne(endpoint, after(3))
      assert.deepStrictEqual([last.notification.type, last.notification.sandbox.status], ["sandbox.failed", "failed"])
      yield* deliver(last, after(3))
      assert.deepStrictEqual(yield* take(endpoint, after(10_000)), [])
    }))

  it.effect("knows what became of a sandbox by its status", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const ended = yield* register(grantId, ["sandbox.ended"])
      const failed = yield* register(grantId, ["sandbox.running", "sandbox.failed", "sandbox.ended"])
      const [a, b] = [yield* sandboxOf(grantId), yield* sandboxOf(grantId)]
      yield* write(a.id, [status("creating"), status("running"), status("failed")])
      yield* write(b.id, [status("creating"), status("succeeded")])
      /** The types that the endpoint is told of both sandboxes. */
      const typesOf = Effect.fnUntraced(function*(key: EndpointKey) {
        const types: Record<string, Array<string>> = { [a.id]: [], [b.id]: [] }
        for (let found = yield* take(key); found.length > 0; found = yield* take(key)) {
          for (const one of found) {
            types[one.notification.sandboxId]?.push(one.notification.type)
            yield* deliver(one)
          }
        }
        return [types[a.id], types[b.id]]
      })
      assert.deepStrictEqual(yield* typesOf(failed), [["sandbox.running", "sandbox.failed"], ["sandbox.ended"]])
      yield* (yield* WebhookFixture).expireTaken
      assert.deepStrictEqual(yield* typesOf(ended), [["sandbox.failed"], ["sandbox.ended"]])
    }))
}

const choices = (it: Writer<Requirements>) => {
  it.effect("tells nothing of other grants, and each endpoint what it chose: the feed, notifications, or both", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const [{ id: grantId }, { id: other }] = [yield* newGrant, yield* newGrant]
      const [feed, both, alone, foreign] = [
        yield* register(grantId, null),
        yield* register(grantId, ["project.connected", "pull_request.updated"]),
        yield* register(grantId),
        yield* register(other)
      ]
      yield* connect(grantId)
      const [seq] = yield* publish((yield* sandboxOf(grantId)).id)
      const ofFeed = yield* store.take(at, 1000)
      assert.deepStrictEqual(
        [feed, both, alone, foreign].map(({ id }) => ofFeed.filter(({ endpointId }) => endpointId === id).length),
        [1, 1, 0, 0]
      )
      const told = yield* store.takeNotifications(at, 1000)
      assert.deepStrictEqual(
        [feed, both, alone, foreign].map(({ id }) =>
          told.filter(({ endpointId }) => endpointId === id).map(({ notification }) => notification.seq)
        ),
        [[], [seq], [seq], []]
      )
      assert.deepStrictEqual((yield* find(both)).types, ["project.connected", "pull_request.updated"])
      assert.deepInclude(yield* find(alone), { types: published, cursor: 0 })
      assert.deepInclude(yield* store.enable(alone, after(1)), { cursor: 0 })
    }))

  it.effect("tells nothing of what was not written: a refused change, a lost lease", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      yield* Effect.flip(store.change(id, "policy", () => Result.fail("no" as const), at))
      yield* Effect.flip(store.change(id, { sandboxId: id, fence: 77 }, () => Result.succeed([pull()]), at))
      assert.deepStrictEqual(yield* take(endpoint), [])
    }))

  it.effect("keeps the newest undelivered notifications of a sandbox, so many and no more", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const [first = 0] = yield* publish(id, MAX_QUEUED + 5)
      // Postgres counts before the events of the change that is written.
      yield* publish(id)
      const one = yield* takeOne(endpoint)
      assert.isAtLeast(one.notification.seq, first + 5)
      assert.isAtMost(one.notification.seq, first + 6)
    }))
}

const lines = (it: Writer<Requirements>) => {
  it.effect("holds up one sandbox when an event of it fails, until the retry, and no other sandbox of the endpoint", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const [failing, other] = [yield* sandboxOf(grantId), yield* sandboxOf(grantId)]
      const own = yield* publish(failing.id, 2)
      yield* record(yield* takeOne(endpoint), retry(5))
      const others = yield* publish(other.id, 3)
      assert.deepStrictEqual(seqs(yield* drain(endpoint)), others)
      assert.deepStrictEqual(yield* take(endpoint, DateTime.subtract(after(5), { milliseconds: 1 })), [])
      const again = yield* takeOne(endpoint, after(5))
      assert.deepStrictEqual([again.notification.seq, again.attempt], [own[0], 2])
      yield* deliver(again, after(5))
      assert.deepStrictEqual(seqs(yield* drain(endpoint, after(5))), own.slice(1))
    }))

  it.effect("waits with a new event of a sandbox until the retry of the one before", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      yield* publish(id)
      yield* record(yield* takeOne(endpoint), retry(5))
      yield* publish(id, 1, after(1))
      assert.deepStrictEqual(yield* take(endpoint, after(4)), [])
      assert.strictEqual((yield* takeOne(endpoint, after(5))).attempt, 2)
    }))

  it.effect("passes over an event after its last attempt, and goes on with the next one", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const [first, second] = yield* publish(id, 2)
      yield* record(yield* takeOne(endpoint), { _tag: "Skip" })
      assert.isNull((yield* find(endpoint)).disabled)
      const next = yield* takeOne(endpoint)
      assert.deepStrictEqual([next.notification.seq, next.attempt], [second, 1])
      yield* record(next, { _tag: "Skip" })
      assert.deepStrictEqual(yield* take(endpoint, after(10_000)), [])
      assert.deepStrictEqual((yield* log(endpoint)).map(({ sequence }) => sequence), [second, first])
    }))

  it.effect("sends an event that a clock ahead dated as soon as it is written, and so the later events of its sandbox", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const now = yield* Effect.map(WebhookFixture, ({ now }) => now)
      const own = [...yield* publish(id, 1, DateTime.add(yield* now, { days: 1 })), ...yield* publish(id, 1, yield* now)]
      const soon = DateTime.add(yield* now, { minutes: 1 })
      assert.deepStrictEqual(seqs(yield* drain(endpoint, soon)), own)
    }))

  it.effect("gives a line to one of many who ask at once", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const [seq] = yield* publish(id, 2)
      const given = yield* Effect.forEach(Array.from({ length: 8 }), () => take(endpoint), { concurrency: "unbounded" })
      assert.deepStrictEqual(given.flat().map(({ notification }) => notification.seq), [seq])
    }))
}

const turns = (it: Writer<Requirements>) => {
  it.effect("gives the attempt of a worker that died to another one, and takes nothing more from the first", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      yield* publish(id, 2)
      const lost = yield* takeOne(endpoint)
      yield* (yield* WebhookFixture).expireTaken
      const taken = yield* takeOne(endpoint)
      assert.deepStrictEqual([taken.notification, taken.attempt], [lost.notification, 1])
      assert.isAbove(taken.fence, lost.fence)
      assert.isFalse(yield* deliver(lost))
      assert.deepStrictEqual(yield* log(endpoint), [])
      assert.isTrue(yield* deliver(taken))
      assert.isFalse(yield* record(taken, retry(5)))
      assert.lengthOf(yield* log(endpoint), 1)
      assert.isTrue(yield* deliver(yield* takeOne(endpoint)))
    }))

  it.effect("has so many attempts under way at an endpoint, and of a grant, and one where nothing is accepted", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const early = DateTime.makeUnsafe("1998-01-01T00:00:00.000Z")
      const keys = [yield* register(grantId), yield* register(grantId), yield* register(grantId)]
      for (let i = 0; i < MAX_AT_ENDPOINT + 2; i++) yield* publish((yield* sandboxOf(grantId)).id)
      const other = yield* register((yield* newGrant).id)
      yield* publish((yield* sandboxOf(other.grantId)).id, 1, after(1))
      // Each grant gets its first notifications, however long those of another grant wait.
      const own = new Set([...keys, other].map(({ id }) => id))
      assert.deepStrictEqual(yield* store.takeNotifications(early, 10), [])
      const taken = (yield* store.takeNotifications(after(1), 1000)).filter(({ endpointId }) => own.has(endpointId))
      const ofGrant = taken.filter(({ endpointId }) => endpointId !== other.id)
      assert.lengthOf(ofGrant, MAX_OF_GRANT)
      for (const { id } of keys) assert.isAtMost(ofGrant.filter(({ endpointId }) => endpointId === id).length, MAX_AT_ENDPOINT)
      assert.lengthOf(taken.filter(({ endpointId }) => endpointId === other.id), 1)
      assert.deepStrictEqual(yield* take(keys[0]!, after(1)), [])
      for (const one of ofGrant) yield* record(one, retry(500), broken, after(2))
      for (const key of keys) assert.isAtMost((yield* take(key, after(2))).length, 1)
    }))

  it.effect("gives each grant a turn before another one gets its second", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      // When nothing of other tests is due.
      const early = DateTime.makeUnsafe("1997-01-01T00:00:00.000Z")
      const many = yield* register((yield* newGrant).id)
      const few = yield* register((yield* newGrant).id)
      const old = (id: SandboxId, minutes: number) => publish(id, 1, DateTime.add(early, { minutes }))
      // The events of a sandbox are never older than it.
      for (let i = 0; i < 4; i++) yield* old((yield* sandboxOf(many.grantId, early)).id, i)
      yield* old((yield* sandboxOf(few.grantId, early)).id, 10)
      const taken = yield* store.takeNotifications(DateTime.add(early, { minutes: 10 }), 2)
      assert.deepStrictEqual(taken.map(({ endpointId }) => endpointId).sort(), [many.id, few.id].sort())
    }))
}

const endpointsOfLines = (it: Writer<Requirements>) => {
  it.effect("disables an endpoint that accepts nothing for a day, with the reason, and an acceptance begins the day anew", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const [a, b] = [yield* sandboxOf(grantId), yield* sandboxOf(grantId)]
      yield* publish(a.id)
      yield* record(yield* takeOne(endpoint), retry(10), broken, after(0))
      assert.deepInclude(yield* find(endpoint), { refusingSince: at, disabled: null })
      yield* publish(b.id)
      yield* deliver(yield* takeOne(endpoint, after(5)), after(5))
      assert.deepInclude(yield* find(endpoint), { refusingSince: null })
      yield* record(yield* takeOne(endpoint, after(10)), retry(20), broken, after(10))
      yield* record(yield* takeOne(endpoint, after(20)), retry(day + 9), broken, after(20))
      yield* record(yield* takeOne(endpoint, after(day + 9)), retry(day + 10), broken, after(day + 9))
      assert.deepInclude(yield* find(endpoint), { refusingSince: after(10), disabled: null })
      const late = yield* takeOne(endpoint, after(day + 10))
      const told = yield* appended(record(late, retry(day + 500), broken, after(day + 10)))
      const reason = "not_accepting" as const
      assert.deepInclude(yield* find(endpoint), { disabled: { at: after(day + 10), reason } })
      assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
        { action: "webhook.disabled", at: after(day + 10), subjects: { endpointId: endpoint.id, grantId, reason } }
      ])
      yield* publish(b.id, 1, after(day + 11))
      assert.deepStrictEqual(yield* take(endpoint, after(10 * day)), [])
      assert.deepInclude(yield* store.enable(endpoint, after(2 * day)), { refusingSince: null, disabled: null })
      const again = yield* take(endpoint, after(2 * day))
      assert.deepStrictEqual(again.map(({ attempt }) => attempt), [1, 1])
    }))

  it.effect("an event of the feed that is accepted begins the day anew", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId, ["project.connected", "pull_request.updated"])
      const { id } = yield* sandboxOf(grantId)
      yield* publish(id)
      yield* record(yield* takeOne(endpoint), retry(10))
      yield* connect(grantId)
      const next: Next = { _tag: "Delivered" }
      for (const one of yield* store.take(after(1), 1000)) {
        if (one.endpointId === endpoint.id) yield* store.record(one, { at, durationMillis: 1, outcome: ok }, next, after(1))
      }
      assert.isNull((yield* find(endpoint)).refusingSince)
    }))
}

const endings = (it: Writer<Requirements>) => {
  it.effect("disables an endpoint that is gone, and goes on with what was not delivered when it is enabled", () =>
    Effect.gen(function*() {
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const own = yield* publish(id, 2)
      yield* record(yield* takeOne(endpoint), { _tag: "Gone" }, broken, after(1))
      assert.deepInclude(yield* find(endpoint), { disabled: { at: after(1), reason: "gone" } })
      assert.deepStrictEqual(yield* take(endpoint, after(10_000)), [])
      yield* (yield* WebhookStore).enable(endpoint, after(2))
      assert.deepStrictEqual(seqs(yield* drain(endpoint, after(2))), own)
    }))

  it.effect("an event that is under way when a notification disables its endpoint does not enable it again", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const nexts: ReadonlyArray<readonly [Next, Outcome]> = [
        [{ _tag: "Delivered" }, ok],
        [{ _tag: "Retry", at: after(5) }, broken],
        [{ _tag: "Disable", reason: "retries_exhausted" }, broken]
      ]
      for (const [next, outcome] of nexts) {
        const { id: grantId } = yield* newGrant
        const endpoint = yield* register(grantId, ["project.connected", "pull_request.updated"])
        const { id } = yield* sandboxOf(grantId)
        yield* connect(grantId)
        yield* publish(id)
        const [event] = (yield* store.take(after(1), 1000)).filter(({ endpointId }) => endpointId === endpoint.id)
        assert.isDefined(event)
        yield* record(yield* takeOne(endpoint, after(1)), { _tag: "Gone" }, broken, after(2))
        const told = yield* appended(store.record(event!, { at, durationMillis: 1, outcome }, next, after(3)))
        assert.deepStrictEqual(told, [])
        assert.deepInclude(yield* find(endpoint), { disabled: { at: after(2), reason: "gone" } })
        yield* store.enable(endpoint, after(4))
        assert.isNull((yield* find(endpoint)).disabled)
      }
    }))

  it.effect("enabling during an attempt forgets what failed, that attempt included, and takes what it delivered", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const endpoint = yield* register(grantId)
      const { id } = yield* sandboxOf(grantId)
      const [first, second] = yield* publish(id, 2)
      for (const [minutes, next] of [[1, retry(500)], [3, { _tag: "Gone" }], [5, { _tag: "Skip" }]] as const) {
        const held = yield* takeOne(endpoint, after(minutes))
        assert.deepStrictEqual([held.notification.seq, held.attempt], [first, 1])
        yield* store.enable(endpoint, after(minutes + 1))
        assert.deepStrictEqual(yield* take(endpoint, after(minutes + 1)), [], "one attempt at a time")
        assert.isTrue(yield* record(held, next, broken, after(minutes + 2)))
        assert.deepInclude(yield* find(endpoint), { disabled: null, refusingSince: null })
      }
      const held = yield* takeOne(endpoint, after(7))
      yield* store.enable(endpoint, after(8))
      assert.isTrue(yield* deliver(held, after(9)))
      assert.strictEqual((yield* takeOne(endpoint, after(9))).notification.seq, second)
    }))

  it.effect("sends nothing for an endpoint that is removed, a grant that is revoked or an organization that is suspended", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const members = yield* MemberStore
      const grant = yield* newGrant
      const [suspended, revoked, removed] = [
        yield* register(grant.id),
        yield* register((yield* newGrant).id),
        yield* register((yield* newGrant).id)
      ]
      const keys = [suspended, revoked, removed]
      const ids = yield* Effect.forEach(keys, ({ grantId }) => Effect.map(sandboxOf(grantId), ({ id }) => id))
      yield* Effect.forEach(ids, (id) => publish(id, 2))
      const underWay = yield* takeOne(removed)
      yield* store.remove(removed, at)
      assert.isFalse(yield* deliver(underWay))
      yield* publish(ids[2]!)
      yield* members.suspend(grant.organizationId, true, at)
      yield* (yield* AccessStore).revokeGrant(revoked.grantId, at)
      yield* (yield* WebhookFixture).expireTaken
      for (const key of keys) assert.deepStrictEqual(yield* take(key, after(1)), [])
      yield* members.suspend(grant.organizationId, false, at)
      assert.lengthOf(yield* take(suspended, after(1)), 1)
    }))
}

const again = (it: Writer<Requirements>) => {
  it.effect("logs attempts under the same id, and sends one again beside its line", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { id: grantId } = yield* newGrant
      const [endpoint, other] = [yield* register(grantId), yield* register(grantId)]
      const { id } = yield* sandboxOf(grantId)
      const [first = 0, second = 0] = yield* publish(id, 2)
      const eventId = notificationId(id, first)
      assert.strictEqual((yield* Effect.flip(store.redeliver(endpoint, eventId, at)))._tag, "PartnerEventNotFound")
      yield* record(yield* takeOne(endpoint), retry(1))
      yield* deliver(yield* takeOne(endpoint, after(1)), after(1))
      assert.strictEqual((yield* Effect.flip(store.redeliver(other, eventId, at)))._tag, "PartnerEventNotFound")
      const inLine = yield* takeOne(endpoint, after(1))
      for (const minutes of [2, 3]) yield* store.redeliver(endpoint, eventId, after(minutes))
      const given = (yield* Effect.forEach([1, 2, 3], () => take(endpoint, after(3)), { concurrency: "unbounded" })).flat()
      const [manual, ...more] = given
      assert(manual !== undefined && more.length === 0)
      assert.deepStrictEqual([manual.notification.seq, manual.manual, manual.attempt], [first, true, 1])
      assert.strictEqual(inLine.notification.seq, second)
      // It is on its way.
      yield* store.redeliver(endpoint, eventId, after(3))
      assert.deepStrictEqual(yield* take(endpoint, after(3)), [])
      yield* (yield* WebhookFixture).expireTaken
      const repeated = (yield* take(endpoint, after(3))).find((one) => one.manual)
      assert(repeated !== undefined)
      assert.isFalse(yield* record(manual, { _tag: "Gone" }))
      assert.isTrue(yield* record(repeated, { _tag: "Gone" }, broken, after(4)))
      assert.isFalse(yield* record(repeated, { _tag: "Gone" }, broken, after(4)))
      assert.deepStrictEqual((yield* take(endpoint, after(4))).filter((one) => one.manual), [])
      assert.isNull((yield* find(endpoint)).disabled)
      const entry = (attempt: number, manual: boolean, minutes: number, outcome: Outcome) => ({
        eventId,
        sequence: first,
        notification: { sandboxId: id, type: "pull_request.updated" as const },
        attempt,
        manual,
        at: after(minutes),
        durationMillis: 12,
        outcome
      })
      assert.deepStrictEqual((yield* log(endpoint)).map(({ position: _position, ...rest }) => rest), [
        entry(1, true, 4, broken),
        entry(2, false, 1, ok),
        entry(1, false, 0, broken)
      ])
    }))

  it.effect("forgets notifications that are old, and those whose events are gone", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const old = DateTime.makeUnsafe("1996-01-01T00:00:00.000Z")
      const endpoint = yield* register((yield* newGrant).id)
      const [{ id: aged }, gone] = [yield* sandboxOf(endpoint.grantId, old), yield* sandboxOf(endpoint.grantId)]
      yield* publish(aged, 2, old)
      yield* publish(aged, 1, DateTime.add(old, { minutes: 1 }))
      const before = DateTime.add(old, { minutes: 1 })
      assert.deepStrictEqual(
        [yield* store.purgeNotifications(before, 1), yield* store.purgeNotifications(before, 5),
          yield* store.purgeNotifications(before, 5)],
        [1, 1, 0]
      )
      const kept = yield* takeOne(endpoint)
      assert.strictEqual(DateTime.formatIso(kept.dueAt), DateTime.formatIso(old))
      yield* deliver(kept)
      assert.strictEqual(yield* store.purgeNotifications(DateTime.add(old, { minutes: 2 }), 5), 1)
      yield* write(gone.id, [pull(), status("failed")])
      const maintenance = yield* Maintenance
      while ((yield* maintenance.purgeEvents(after(1), 1000)).more) continue
      assert.deepStrictEqual(yield* take(endpoint, after(day)), [])
      // Neither holds up what comes later.
      const [next] = yield* publish(aged, 1, after(day))
      assert.deepStrictEqual(seqs(yield* drain(endpoint, after(day + 5))), [next])
    }))
}

const orphans = (it: Writer<Requirements>) => {
  it.effect("lines whose events are gone keep their places from no other sandbox", () =>
    Effect.gen(function*() {
      const endpoint = yield* register((yield* newGrant).id)
      for (let i = 0; i < MAX_AT_ENDPOINT; i++) yield* write((yield* sandboxOf(endpoint.grantId)).id, [pull(), status("failed")])
      const maintenance = yield* Maintenance
      while ((yield* maintenance.purgeEvents(after(1), 1000)).more) continue
      const [seq] = yield* publish((yield* sandboxOf(endpoint.grantId)).id, 1, after(1))
      // The first look may find only those.
      const told = [...yield* drain(endpoint, after(1)), ...yield* drain(endpoint, after(1))]
      assert.deepStrictEqual(seqs(told), [seq])
    }))
}

/** All rules of notifications. */
export const notifications = (it: Writer<Requirements>) => {
  queue(it)
  choices(it)
  lines(it)
  turns(it)
  endpointsOfLines(it)
  endings(it)
  again(it)
  orphans(it)
}
