/**
 * What every `PartnerStore` must do. An adapter proves itself by running this suite against its layer; a rule that is
 * not here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { assert, it } from "@effect/vitest"
import { Context, DateTime, Deferred, Effect, Fiber, type Layer } from "effect"
import { Ids } from "../src/Ids.ts"
import type { PartnerFact } from "../src/partner/PartnerEvent.ts"
import { PartnerStore, type Telling } from "../src/partner/PartnerStore.ts"

/** What only the technology under test can do. */
export class PartnerFixture extends Context.Service<PartnerFixture, {
  /** Id of a new grant that may have a feed. */
  readonly grant: Effect.Effect<string>
  /** Keeps the transaction it is part of open for a moment. */
  readonly linger: Effect.Effect<void>
  /** Records in a transaction that is rolled back afterwards. */
  rolledBack(tell: ReadonlyArray<Telling>): Effect.Effect<void>
}>()("@slipway/domain/testing/PartnerFixture") {}

const WRITERS = 16
const READERS = 4

/** One feed under fire. `write(n, kept)` commits the fact `n`, or rolls it back. */
export interface Contested<E> {
  write(n: number, kept: boolean): Effect.Effect<void, E>
  read(after: number): Effect.Effect<ReadonlyArray<{ readonly sequence: number; readonly n: number }>, E>
}

/**
 * Many write at once and a tenth of it is rolled back, while readers follow by their cursor until the writers have
 * ended and nothing comes any more. What is wrong with what they saw, in words; `null`: nothing.
 */
export const faultOf = Effect.fnUntraced(function*<E>({ read, write }: Contested<E>, each = 10) {
  const over = yield* Deferred.make<void>()
  const isKept = (n: number) => n % 10 !== 3
  const reader = Effect.gen(function*() {
    const seen: Array<{ readonly sequence: number; readonly n: number }> = []
    for (;;) {
      const last = yield* Deferred.isDone(over)
      const page = yield* read(seen.at(-1)?.sequence ?? 0)
      seen.push(...page)
      if (last && page.length === 0) return seen
      yield* Effect.yieldNow
    }
  })
  const readers = yield* Effect.forEach(Array.from({ length: READERS }), () => Effect.forkChild(reader))
  yield* Effect.forEach(Array.from({ length: WRITERS }, (_, w) => w), (w) =>
    Effect.forEach(Array.from({ length: each }, (_, i) => w * each + i), (n) => write(n, isKept(n))), { concurrency: "unbounded" })
  yield* Deferred.succeed(over, undefined)
  const expected = Array.from({ length: WRITERS * each }, (_, n) => n).filter(isKept)
  for (const seen of yield* Effect.forEach(readers, Fiber.join)) {
    const numbers = seen.map(({ n }) => n)
    const missed = expected.filter((n) => !numbers.includes(n))
    if (missed.length > 0) return `a reader missed ${missed.join(", ")}`
    if (numbers.length > expected.length) return "a reader saw what was rolled back, or one event twice"
    if (seen.some(({ sequence }, i) => sequence !== i + 1)) return `the numbers are ${seen.map(({ sequence }) => sequence).join(", ")}`
  }
  return null
})

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<PartnerStore | Ids | PartnerFixture, unknown>) =>
  it.layer(layer)(`PartnerStore (${name})`, (it) => {
    const offer = { leadId: "lead \u{1F680}", variant: "a 'quoted' \\ variant" }
    const factOf = (ids: Ids["Service"], n: number | string): PartnerFact => ({
      type: "task.started",
      data: { ...offer, claimId: ids.derive("claim"), occurredAt: at, taskId: `${n}`, projectId: null }
    })
    const tell = Effect.fnUntraced(function*(...tell: ReadonlyArray<Telling>) {
      const store = yield* PartnerStore
      yield* store.record(Effect.succeed({ result: undefined, tell }), at)
    })
    const feedOf = (grantId: string, after = 0, limit = 100) => Effect.flatMap(PartnerStore, (store) => store.feed(grantId, after, limit))

    it.effect("tells every type of event with its payload as it was given, in its order", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const grantId = yield* (yield* PartnerFixture).grant
        const claim = { ...offer, claimId: yield* ids.uuid7, creditAmount: Number.MAX_SAFE_INTEGER, createdAt: at }
        const attributed = { ...offer, claimId: claim.claimId, occurredAt: DateTime.subtract(at, { days: 1 }) }
        const facts: ReadonlyArray<PartnerFact> = [
          { type: "credit_claim.created", data: { ...claim, status: "pending", claimedAt: null } },
          { type: "credit_claim.claimed", data: { ...claim, status: "claimed", claimedAt: at } },
          { type: "project.connected", data: { ...attributed, projectId: "p" } },
          { type: "task.started", data: { ...attributed, taskId: "t", projectId: null } },
          { type: "pull_request.opened", data: { ...attributed, pullRequestId: "r", taskId: "t", projectId: "p" } },
          { type: "conversion.paid", data: { ...attributed, conversionId: "c" } }
        ]
        yield* tell(...facts.map((fact) => ({ grantId, fact })))
        const events = yield* feedOf(grantId)
        assert.deepStrictEqual(
          events.map(({ createdAt, data, sequence, type }) => ({ createdAt, data, sequence, type })),
          facts.map((fact, i) => ({ ...fact, createdAt: at, sequence: i + 1 }))
        )
        assert.ok(events.every(({ id }) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u.test(id)))
        assert.strictEqual(new Set(events.map(({ id }) => id)).size, events.length)
        assert.deepStrictEqual(yield* feedOf(grantId), events)
      }))

    it.effect("serves what comes after a cursor, up to a limit, and nothing at the head or beyond it", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const grantId = yield* (yield* PartnerFixture).grant
        assert.deepStrictEqual(yield* feedOf(grantId), [])
        yield* tell(...[1, 2, 3, 4].map((n) => ({ grantId, fact: factOf(ids, n) })))
        const all = yield* feedOf(grantId)
        assert.deepStrictEqual(all.map(({ sequence }) => sequence), [1, 2, 3, 4])
        assert.deepStrictEqual(yield* feedOf(grantId, 1, 2), all.slice(1, 3))
        for (const after of [4, 5, Number.MAX_SAFE_INTEGER]) assert.deepStrictEqual(yield* feedOf(grantId, after), [])
      }))

    it.effect("gives the result of what it recorded", () =>
      Effect.gen(function*() {
        const store = yield* PartnerStore
        assert.strictEqual(yield* store.record(Effect.succeed({ result: "done", tell: [] }), at), "done")
      }))

    it.effect("a decision that fails tells nothing and takes no number, nor does one that is rolled back later", () =>
      Effect.gen(function*() {
        const store = yield* PartnerStore
        const ids = yield* Ids
        const fixture = yield* PartnerFixture
        const grantId = yield* fixture.grant
        assert.strictEqual(yield* Effect.flip(store.record(Effect.fail("no"), at)), "no")
        yield* fixture.rolledBack([{ grantId, fact: factOf(ids, 1) }])
        assert.deepStrictEqual(yield* feedOf(grantId), [])
        yield* tell({ grantId, fact: factOf(ids, 1) })
        assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), [1])
      }))

    it.effect("tells each type once of one thing, the first time, and other feeds of it too", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const fixture = yield* PartnerFixture
        const [a, b] = [yield* fixture.grant, yield* fixture.grant]
        const fact = factOf(ids, 1)
        yield* tell({ grantId: a, fact })
        const [first] = yield* feedOf(a)
        yield* tell({ grantId: a, fact: factOf(ids, 2) }, { grantId: a, fact }, { grantId: a, fact: factOf(ids, 3) }, { grantId: b, fact }, { grantId: a, fact: factOf(ids, 3) })
        const events = yield* feedOf(a)
        assert.deepStrictEqual(events[0], first)
        assert.deepStrictEqual(events.map(({ data, sequence }) => ["taskId" in data && data.taskId, sequence]), [["1", 1], ["2", 2], ["3", 3]])
        assert.deepStrictEqual((yield* feedOf(b)).map(({ sequence }) => sequence), [1])
      }))

    it.effect("of many who tell one fact at once exactly one does", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const grantId = yield* (yield* PartnerFixture).grant
        yield* Effect.forEach(Array.from({ length: 12 }), () => tell({ grantId, fact: factOf(ids, 1) }), { concurrency: "unbounded" })
        assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), [1])
      }))

    it.effect("a reader misses nothing and sees 1 to n, however many write at once and are rolled back", () =>
      Effect.gen(function*() {
        const store = yield* PartnerStore
        const ids = yield* Ids
        const { grant, linger, rolledBack } = yield* PartnerFixture
        const grantId = yield* grant
        const fault = yield* faultOf({
          write: (n, kept) => {
            const tell = [{ grantId, fact: factOf(ids, n) }]
            return kept ? store.record(Effect.as(linger, { result: undefined, tell }), at) : rolledBack(tell)
          },
          read: (after) =>
            Effect.map(store.feed(grantId, after, 7), (events) =>
              events.map(({ data, sequence }) => ({ sequence, n: "taskId" in data ? Number(data.taskId) : NaN })))
        })
        assert.isNull(fault)
      }), 30_000)

    it.effect("writers of several feeds never wait for each other in a circle", () =>
      Effect.gen(function*() {
        const ids = yield* Ids
        const fixture = yield* PartnerFixture
        const grants = [yield* fixture.grant, yield* fixture.grant, yield* fixture.grant]
        yield* Effect.forEach(Array.from({ length: 30 }, (_, n) => n), (n) => {
          const order = n % 2 === 0 ? grants : [...grants].reverse()
          return tell(...order.map((grantId) => ({ grantId, fact: factOf(ids, n) })))
        }, { concurrency: "unbounded" })
        for (const grantId of grants) {
          assert.deepStrictEqual((yield* feedOf(grantId)).map(({ sequence }) => sequence), Array.from({ length: 30 }, (_, i) => i + 1))
        }
      }))
  })
