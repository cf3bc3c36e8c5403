/**
 * The rules that every `Maintenance` must keep, beside the `SandboxStore` of the same rows. An adapter proves itself by running this suite
 * against its layer; a rule that is missing here is not part of the port. Fresh ids make it repeatable on one database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { type Due, type DuePage, type LogHead, Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { decideApproval, sendMessage, terminate } from "@slipway/domain/sandbox/rules/Command"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { nextDeadline } from "@slipway/domain/sandbox/rules/TimeLimit"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { decider, inquiry, request } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { dueByOthers } from "./OtherPolicies.ts"
import { StoreFixture, at, atRest, creationOf, make, drive, keyOf, asking, leased, ending, type Stores, command } from "./SandboxStates.ts"

/** A sandbox that failed then. */
const ended = Effect.fnUntraced(function*(then: DateTime.Utc) {
  const store = yield* SandboxStore
  const limits = yield* Policy
  const sandbox = yield* make()
  const fail = { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false } as const
  yield* drive(sandbox, [{ _tag: "StartBoot" }])
  const failed = yield* store.change(sandbox.id, "policy", (state) => decide(state, fail, { now: then, limits }), then)
  return failed.sandbox
})

const purge = (endedBefore: DateTime.Utc) => Effect.flatMap(Maintenance, (maintenance) => maintenance.purgeEvents(endedBefore, 10_000))

const remaining = (id: SandboxId) =>
  Effect.gen(function*() {
    const store = yield* SandboxStore
    return [(yield* store.log(id, 0, 1000)).map(({ seq }) => seq), yield* store.purged(id)] as const
  })

const dueSandboxes = (it: Writer<Stores>) => {
  it.effect("a sandbox is due when its first time limit has come", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const maintenance = yield* Maintenance
      const limits = yield* Policy
      const before = yield* maintenance.now
      const begun = (minutes: number) => make({ createdAt: DateTime.add(DateTime.subtractDuration(before, limits.queue), { minutes }) })
      const [over, soon] = [yield* begun(0), yield* begun(1)]
      const { ids, now } = yield* maintenance.due(10_000)
      assert.include(ids, over.id)
      assert.notInclude(ids, soon.id)
      yield* store.change(over.id, "policy", (state) => decide(state, { _tag: "Expire" }, { now, limits }), now)
      assert.notInclude((yield* maintenance.due(10_000)).ids, over.id)
      yield* command(keyOf(soon), terminate(yield* Ids), at)
    }))

  it.effect("what is due comes by the age of its limit, the oldest first, also where only so many are asked for", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const ids = yield* Ids
      // Longer ago than any other test's.
      const then = DateTime.makeUnsafe("1969-01-01T00:00:00.123Z")
      const made = yield* Effect.forEach([2, 0, 1], (millis) => make({ createdAt: DateTime.add(then, { milliseconds: millis }) }))
      const expected = [made[1]?.id, made[2]?.id, made[0]?.id]
      for (const limit of [1, 2, 3]) {
        assert.deepStrictEqual((yield* maintenance.due(limit)).ids, expected.slice(0, limit) as Array<SandboxId>)
      }
      assert.deepStrictEqual((yield* maintenance.due(10_000)).ids.slice(0, 3), expected as Array<SandboxId>)
      yield* Effect.forEach(made, (sandbox) => command(keyOf(sandbox), terminate(ids), at))
    }))

  it.effect("pages of what is due go on behind the last of the page before, also where many came due at one moment", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const ids = yield* Ids
      const then = DateTime.makeUnsafe("1969-01-01T00:00:00.123Z")
      const made = yield* Effect.forEach([1, 0, 1, 2, 1], (millis) => make({ createdAt: DateTime.add(then, { milliseconds: millis }) }))
      const byTime = made.toSorted((a, b) => DateTime.Order(a.createdAt, b.createdAt) || (a.id < b.id ? -1 : 1)).map(({ id }) => id)
      for (const limit of [1, 2, 3]) {
        const found: Array<SandboxId> = []
        let after: Due | null = null
        while (found.length < made.length) {
          const page: DuePage = yield* maintenance.due(limit, after)
          assert.isNotEmpty(page.ids)
          found.push(...page.ids)
          after = page.last
        }
        assert.deepStrictEqual(found.slice(0, made.length), byTime)
      }
      yield* Effect.forEach(made, (sandbox) => command(keyOf(sandbox), terminate(ids), at))
      const none = yield* maintenance.due(1, { at: DateTime.makeUnsafe("9999-01-01T00:00:00.000Z"), id: made[0]!.id })
      assert.deepStrictEqual([none.ids, none.last], [[], null])
    }))

  it.effect("the limits of now decide what is due, raised or lowered since it was written", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { under } = yield* StoreFixture
      const limits = yield* Policy
      const now = yield* Effect.flatMap(Maintenance, (maintenance) => maintenance.now)
      const short = { ...limits, queue: Duration.minutes(1) }
      const long = { ...limits, queue: Duration.hours(24) }
      const createdAt = DateTime.subtract(now, { hours: 2 })
      const [ofShort, ofLong] = [yield* under(short, make({ createdAt })), yield* under(long, make({ createdAt }))]
      const isDue = (by: Limits) =>
        under(
          by,
          Effect.map(
            Maintenance.use((maintenance) => maintenance.due(10_000)),
            ({ ids }) => [ofShort, ofLong].map(({ id }) => ids.includes(id))
          )
        )
      for (const [by, expected] of [[long, false], [short, true], [long, false], [short, true]] as const) {
        assert.deepStrictEqual(yield* isDue(by), [expected, expected])
      }
      // Each sandbox that is found has something to do: it ends, and is not found again.
      for (const { id } of [ofShort, ofLong]) {
        yield* store.change(id, "policy", (state) => decide(state, { _tag: "Expire" }, { now, limits: short }), now)
      }
      assert.deepStrictEqual(yield* isDue(short), [false, false])
    }))
}

const dueByState = (it: Writer<Stores>) => {
  it.effect("in every state the limits that are due are those of the rules, whichever of them is short", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { under } = yield* StoreFixture
      const ids = yield* Ids
      const own = yield* Policy
      const yesterday = DateTime.subtract(yield* Effect.flatMap(Maintenance, (maintenance) => maintenance.now), { days: 1 })
      const created: Array<SandboxId> = []
      /** A sandbox after these steps, with a minute between any two. */
      const reached = Effect.fnUntraced(function*(...steps: ReadonlyArray<SystemCommand["_tag"] | "Terminate" | "SetupDone">) {
        let time = DateTime.add(yesterday, { minutes: 20 * created.length })
        const { grantId, id } = yield* make({ createdAt: time })
        created.push(id)
        const turn = turnId(ids, id, 1)
        const known = {
          StartBoot: { _tag: "StartBoot" },
          StartSetup: { _tag: "StartSetup", limit: Duration.minutes(50) },
          SetupDone: { _tag: "ReportBoot", data: { stage: "setup", ms: 1 } },
          FinishBoot: { _tag: "FinishBoot", turnId: turn },
          StartTurn: { _tag: "StartTurn", turnId: turn },
          RequestApproval: request(turn, "call-1"),
          AskQuestion: inquiry(turn, "question-1"),
          EndTurn: { _tag: "EndTurn", turnId: turn, state: "succeeded" },
          RecordCheckpoint: { _tag: "RecordCheckpoint", data: { checkpoint: 1, bytes: 1, ms: 1, repos: [] } },
          ReportPublication: { _tag: "ReportPublication", data: { repo: "acme/Shop", action_state: "publishing" } },
          Release: { _tag: "Release" }
        } as const
        for (const step of steps) {
          time = DateTime.add(time, { minutes: 1 })
          const did = known[step as keyof typeof known]
          yield* step === "Terminate"
            ? command({ grantId, id }, terminate(ids), time)
            : store.change(id, "policy", (state) => decide(state, did, { now: time, limits: own }), time)
        }
      })
      const boot = ["StartBoot", "FinishBoot"] as const
      const rest = [...boot, "StartTurn", "EndTurn", "RecordCheckpoint"] as const
      yield* reached()
      yield* reached("StartBoot")
      yield* reached("StartBoot", "StartSetup")
      yield* reached("StartBoot", "StartSetup", "SetupDone")
      yield* reached("StartBoot", "StartSetup", "SetupDone", "StartSetup")
      yield* reached(...boot)
      yield* reached(...boot, "StartTurn")
      yield* reached(...boot, "StartTurn", "RequestApproval")
      yield* reached(...boot, "StartTurn", "AskQuestion")
      yield* reached(...boot, "StartTurn", "AskQuestion", "RequestApproval")
      yield* reached(...boot, "StartTurn", "EndTurn")
      yield* reached(...rest)
      yield* reached(...rest, "ReportPublication")
      yield* reached("StartBoot", "Terminate")
      yield* reached(...rest, "Terminate")
      yield* reached(...rest, "Terminate", "Release")

      const days = Duration.days(400)
      const none = { ...own, queue: days, boot: days, idle: days, lifetime: days, release: days, turn: days }
      const limits = ["queue", "boot", "idle", "lifetime", "release", "turn"] as const
      const variants: ReadonlyArray<Limits> = [
        none,
        ...limits.map((name) => ({ ...none, [name]: Duration.minutes(1) })),
        { ...none, boot: Duration.hours(23) },
        { ...none, idle: Duration.hours(21) },
        { ...none, ...Object.fromEntries(limits.map((name) => [name, Duration.millis(1)])) }
      ]
      for (const variant of variants) {
        const { found, now } = yield* under(
          variant,
          Effect.map(
            Maintenance.use((maintenance) => maintenance.due(10_000)),
            ({ ids, now }) => ({ found: ids.filter((id) => created.includes(id)), now })
          )
        )
        const expected: Array<Due> = []
        for (const id of created) {
          const { sandbox } = yield* store.change(id, "policy", () => Result.succeed([]), now)
          const next = nextDeadline(sandbox, variant)
          if (next !== null && DateTime.isLessThanOrEqualTo(next, now)) expected.push({ at: next, id })
        }
        assert.deepStrictEqual(
          found,
          expected.toSorted((a, b) => DateTime.Order(a.at, b.at) || (a.id < b.id ? -1 : 1)).map(({ id }) => id)
        )
      }
      for (const id of created.slice(0, -1)) {
        const { sandbox } = yield* store.change(id, "policy", () => Result.succeed([]), at)
        if (sandbox.status !== "terminating") yield* command(keyOf(sandbox), terminate(ids), at)
      }
    }))
}

const forgetting = (it: Writer<Stores>) => {
  it.effect("a revoked grant's sandboxes that live and do not end yet are to end, as many as are asked for", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const { grant, revoke } = yield* StoreFixture
      if (revoke === undefined) return
      const ids = yield* Ids
      const grantId = yield* grant
      const sandboxes = yield* Effect.forEach([0, 1, 2, 3, 4], () => make({ grantId }))
      const [queued, creating, ready, ends, over] = sandboxes
      assert(queued !== undefined && creating !== undefined && ready !== undefined && ends !== undefined && over !== undefined)
      yield* drive(creating, [{ _tag: "StartBoot" }])
      yield* drive(ready, [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(ids, ready.id, 1) }])
      yield* drive(ends, [{ _tag: "StartBoot" }])
      for (const sandbox of [ends, over]) yield* command(keyOf(sandbox), terminate(ids), at)
      assert.deepStrictEqual(yield* maintenance.ofRevokedGrants(10), [])
      yield* revoke(grantId)
      assert.sameMembers(Array.from(yield* maintenance.ofRevokedGrants(10)), [queued.id, creating.id, ready.id])
      assert.lengthOf(yield* maintenance.ofRevokedGrants(2), 2)
      yield* Effect.forEach(sandboxes, (sandbox) => command(keyOf(sandbox), terminate(ids), at))
      assert.deepStrictEqual(yield* maintenance.ofRevokedGrants(10), [])
    }))

  it.effect("forgets as many keys at a time as it is told, of creations and of messages together", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const maintenance = yield* Maintenance
      const fixture = yield* StoreFixture
      const ids = yield* Ids
      const grantId = yield* fixture.grant
      const expired = Effect.forEach(["before", "after"] as const, (until) => fixture.ageKeys(grantId, until))
      // If the clock moves for it, the keys of other tests expire too.
      yield* expired
      yield* maintenance.purgeKeys(10_000)
      const keyed = (key: string) => ({ key: IdempotencyKey.make(key), fingerprint: "1:a" })
      for (const key of ["a", "b", "c"]) {
        const { sandbox } = yield* store.create({ creation: yield* creationOf({ grantId }), keyed: keyed(key) })
        yield* atRest(sandbox)
        yield* command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, keyed(key))
      }
      yield* expired
      const counts = [yield* maintenance.purgeKeys(4), yield* maintenance.purgeKeys(4), yield* maintenance.purgeKeys(4)]
      assert.deepStrictEqual(counts, [4, 2, 0])
    }))

  it.effect("a boot whose setup runs is due when that has had its time too", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const maintenance = yield* Maintenance
      const limits = yield* Policy
      const now = yield* maintenance.now
      const longAgo = DateTime.subtractDuration(now, Duration.sum(limits.boot, Duration.minutes(20)))
      const begin = { _tag: "StartSetup", limit: Duration.minutes(30) } as const
      const end = { _tag: "ReportBoot", data: { stage: "setup", ms: 1 } } as const
      const boot = Effect.fnUntraced(function*(...commands: ReadonlyArray<typeof begin | typeof end>) {
        const { id } = yield* make({ createdAt: longAgo })
        for (const command of [{ _tag: "StartBoot" }, ...commands] as const) {
          yield* store.change(id, "policy", (state) => decide(state, command, { now: longAgo, limits }), longAgo)
        }
        return yield* store.change(id, "policy", () => Result.succeed([]), now)
      })
      const [none, running, over] = [yield* boot(), yield* boot(begin), yield* boot(begin, end)]
      const { ids } = yield* maintenance.due(10_000)
      const isDue = [none, running, over].map(({ sandbox }) => ids.includes(sandbox.id))
      assert.deepStrictEqual(isDue, [true, false, true])
      assert.deepStrictEqual(running.sandbox.setupTime, { spentMs: 0, run: { since: longAgo, limitMs: 1_800_000 } })
      assert.deepStrictEqual(over.sandbox.setupTime, { spentMs: 0, run: null })
      for (const { sandbox } of [none, running, over]) yield* command(keyOf(sandbox), terminate(yield* Ids), at)
    }))

  it.effect("forgets the events of sandboxes that ended long ago, and remembers up to which", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const then = DateTime.add(at, { days: 1 })
      const old = yield* ended(then)
      const young = yield* ended(DateTime.add(then, { milliseconds: 1 }))
      const live = yield* make()
      const all = { old: yield* remaining(old.id), young: yield* remaining(young.id), live: yield* remaining(live.id) }
      assert.strictEqual(all.old[1], 0)
      yield* purge(DateTime.subtract(then, { milliseconds: 1 }))
      assert.deepStrictEqual(yield* remaining(old.id), all.old)
      yield* purge(then)
      assert.deepStrictEqual(yield* remaining(old.id), [[], old.lastSeq])
      assert.deepStrictEqual([yield* remaining(young.id), yield* remaining(live.id)], [all.young, all.live])
      assert.deepStrictEqual(yield* store.find(old), old)
      yield* purge(then)
      assert.deepStrictEqual(yield* remaining(old.id), [[], old.lastSeq])
    }))
}

const purging = (it: Writer<Stores>) => {
  it.effect("forgets with the events whose trace a sandbox and its turns went on with, and keeps its messages, and all of others", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const ids = yield* Ids
      const trace = (n: number) => `00-${String(n).repeat(32)}-${String(n).repeat(16)}-01`
      const then = DateTime.add(at, { days: 3 })
      const traced = Effect.gen(function*() {
        const creation = yield* creationOf({ grantId: yield* (yield* StoreFixture).grant })
        const { sandbox } = yield* store.create({ creation, keyed: null, trace: trace(1) })
        const first = turnId(ids, sandbox.id, 1)
        yield* drive(sandbox, [
          { _tag: "StartBoot" },
          { _tag: "FinishBoot", turnId: first },
          { _tag: "StartTurn", turnId: first },
          { _tag: "EndTurn", turnId: first, state: "succeeded" }
        ])
        const { turnId: second } = yield* store.command(keyOf(sandbox), sendMessage(ids, "Go on", "user-2"), at, undefined, trace(2))
        return { sandbox, kept: store.traces(sandbox.id, second) }
      })
      const [old, young, live] = [yield* traced, yield* traced, yield* traced]
      for (const [{ sandbox }, when] of [[old, then], [young, DateTime.add(then, { milliseconds: 1 })]] as const) {
        yield* command(keyOf(sandbox), terminate(ids), when)
        yield* store.change(sandbox.id, "policy", (state) => decide(state, { _tag: "Release" }, { now: when, limits }), when)
      }
      const said = yield* store.messages(old.sandbox.id, 0, 10)
      yield* purge(then)
      assert.isNotEmpty(said)
      assert.deepStrictEqual(yield* store.messages(old.sandbox.id, 0, 10), said)
      const all = { creation: trace(1), turn: trace(2) }
      assert.deepStrictEqual([yield* old.kept, yield* young.kept, yield* live.kept], [{ creation: null, turn: null }, all, all])
    }))

  it.effect("goes on numbering where a purged log ended, and purges the rest when its time is over too", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const then = DateTime.add(at, { days: 1 })
      const later = DateTime.add(then, { days: 40 })
      const old = yield* ended(then)
      yield* purge(then)
      yield* command(keyOf(old), terminate(yield* Ids), later)
      yield* purge(later)
      const [seqs, purged] = yield* remaining(old.id)
      assert.deepStrictEqual([seqs[0], purged], [old.lastSeq + 1, old.lastSeq])
      const { sandbox: over } = yield* store.change(
        old.id,
        "policy",
        (state) => decide(state, { _tag: "Release" }, { now: later, limits }),
        later
      )
      yield* purge(DateTime.subtract(later, { milliseconds: 1 }))
      assert.strictEqual((yield* remaining(old.id))[1], old.lastSeq)
      yield* purge(later)
      assert.deepStrictEqual(yield* remaining(old.id), [[], over.lastSeq])
    }))

  it.effect("purges as many at a time as it is told, until none is left", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const then = DateTime.add(at, { days: 2 })
      yield* purge(then)
      yield* Effect.forEach([1, 2, 3], () => ended(then))
      assert.deepStrictEqual(yield* maintenance.purgeEvents(then, 2), { sandboxes: 2, more: true })
      assert.deepStrictEqual(yield* maintenance.purgeEvents(then, 2), { sandboxes: 1, more: false })
      assert.deepStrictEqual(yield* maintenance.purgeEvents(then, 2), { sandboxes: 0, more: false })
    }))
}

const heads = (it: Writer<Stores>) => {
  const ask = (after: SandboxId | null, limit: number) => Maintenance.use((maintenance) => maintenance.heads(after, limit))

  it.effect("pages of heads have every log that has events once, with its newest event, whichever grant owns it", () =>
    Effect.gen(function*() {
      const made = [yield* make(), yield* make(), yield* ended(at)]
      const written = yield* make()
      yield* drive(written, [{ _tag: "StartBoot" }])
      const { lastSeq } = yield* SandboxStore.use((store) => store.find(written))
      assert.isAbove(lastSeq, written.lastSeq)
      for (const limit of [1, 2, 10_000]) {
        const found = new Map<SandboxId, number>()
        let pages = 0
        for (let after: SandboxId | null = null;;) {
          const page: ReadonlyArray<LogHead> = yield* ask(after, limit)
          const last = page.at(-1)
          if (last === undefined) break
          pages++
          assert.isAtMost(page.length, limit)
          for (const { id, seq } of page) {
            assert.isFalse(found.has(id))
            found.set(id, seq)
          }
          after = last.id
        }
        assert.strictEqual(pages, Math.ceil(found.size / limit))
        assert.deepStrictEqual([...made, written].map(({ id }) => found.get(id)), [...made.map((one) => one.lastSeq), lastSeq])
      }
    }))

  it.effect("a log without stored events has no head, until an event is written", () =>
    Effect.gen(function*() {
      const then = DateTime.add(at, { days: 1 })
      const old = yield* ended(then)
      const head = Effect.map(ask(null, 10_000), (page) => page.find(({ id }) => id === old.id)?.seq)
      assert.strictEqual(yield* head, old.lastSeq)
      yield* purge(then)
      assert.isUndefined(yield* head)
      yield* command(keyOf(old), terminate(yield* Ids), DateTime.add(then, { days: 40 }))
      assert.isAbove((yield* head) ?? 0, old.lastSeq)
    }))
}

const keys = (it: Writer<Stores>) => {
  it.effect("a key binds for its time and is free afterwards, whether it was purged by then or not", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const maintenance = yield* Maintenance
      const fixture = yield* StoreFixture
      const grantId = yield* fixture.grant
      const keyed = (key: string) => ({ key: IdempotencyKey.make(key), fingerprint: "1:a" })
      const create = (key: string) => Effect.flatMap(creationOf({ grantId }), (creation) => store.create({ creation, keyed: keyed(key) }))
      const first = yield* Effect.forEach(["purged", "overwritten"], create)
      yield* fixture.ageKeys(grantId, "before")
      yield* maintenance.purgeKeys(10_000)
      for (const key of ["purged", "overwritten"]) assert.isTrue((yield* create(key)).replayed)
      yield* fixture.ageKeys(grantId, "after")
      const fresh = yield* create("overwritten")
      assert.isFalse(fresh.replayed)
      assert.isAbove(yield* maintenance.purgeKeys(10_000), 0)
      assert.strictEqual(yield* maintenance.purgeKeys(10_000), 0)
      assert.isTrue((yield* create("overwritten")).replayed)
      assert.isFalse((yield* create("purged")).replayed)
      for (const { sandbox } of first) assert.deepStrictEqual(yield* store.find(sandbox), sandbox)
    }))

  it.effect("a message's key binds for its time and is free afterwards, whether it was purged by then or not", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const fixture = yield* StoreFixture
      const ids = yield* Ids
      const grantId = yield* fixture.grant
      const [purged, overwritten] = [yield* atRest(yield* make({ grantId })), yield* atRest(yield* make({ grantId }))]
      const send = (sandbox: Sandbox) =>
        Effect.map(
          command(
            keyOf(sandbox),
            sendMessage(ids, "Go on", "user-2", { whenBusy: "queue", canSteer: () => false }),
            at,
            { key: IdempotencyKey.make("message"), fingerprint: "1:a" }
          ),
          ({ outcome }) => outcome
        )
      for (const sandbox of [purged, overwritten]) assert.strictEqual(yield* send(sandbox), "applied")
      yield* fixture.ageKeys(grantId, "before")
      yield* maintenance.purgeKeys(10_000)
      for (const sandbox of [purged, overwritten]) assert.strictEqual(yield* send(sandbox), "duplicate")
      yield* fixture.ageKeys(grantId, "after")
      for (const outcome of ["applied", "duplicate"]) assert.strictEqual(yield* send(overwritten), outcome)
      assert.isAbove(yield* maintenance.purgeKeys(10_000), 0)
      assert.strictEqual(yield* maintenance.purgeKeys(10_000), 0)
      assert.strictEqual(yield* send(overwritten), "duplicate")
      assert.strictEqual(yield* send(purged), "applied")
    }))
}

const unneededFiles = (it: Writer<Stores>) => {
  it.effect("says what a machine need not keep: what is over or unknown, and what another machine has worked for since", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const leases = yield* Leases
      const [over, queued, releasing, moving] = [yield* ended(at), yield* make(), yield* ending(), yield* make()]
      const unknown = SandboxId.make("c_333333333333")
      const [first, next] = [yield* Ids.use((ids) => ids.uuid7), yield* Ids.use((ids) => ids.uuid7)]
      const all = [moving.id, over.id, queued.id, releasing.id, unknown]
      const { lease } = yield* leased(moving.id, { worker: "first", machine: first })
      assert.deepStrictEqual(yield* maintenance.left(first, all), { over: [over.id, unknown], moved: [] })
      const unleased = yield* make()
      assert.deepStrictEqual(yield* maintenance.left(first, [unleased.id]), { over: [], moved: [] })
      yield* leases.release(lease, { mayMove: true })
      assert.deepStrictEqual((yield* maintenance.left(first, all)).moved, [])
      const arriving = yield* leased(moving.id, { worker: "next", machine: next })
      // No worker has it yet.
      for (const machine of [first, next]) assert.deepStrictEqual((yield* maintenance.left(machine, [moving.id])).moved, [])
      yield* leases.arrived(arriving.lease)
      assert.deepStrictEqual(yield* maintenance.left(first, [moving.id, over.id]), { over: [over.id], moved: [moving.id] })
      assert.deepStrictEqual(yield* maintenance.left(next, [moving.id, over.id]), { over: [over.id], moved: [] })
    }))

  it.effect("says what no machine need keep: not what is published after its end, nor what a worker holds", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const leases = yield* Leases
      const [over, live, releasing, published, held] = [yield* ended(at), yield* make(), yield* ending(), yield* make(), yield* make()]
      yield* atRest(live)
      const unknown = SandboxId.make("c_333333333333")
      const fail = { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false } as const
      yield* drive(published, [{ _tag: "StartBoot" }, fail])
      const machine = yield* Ids.use((ids) => ids.uuid7)
      const { lease } = yield* leased(held.id, { worker: "holder", machine })
      yield* drive(held, [{ _tag: "StartBoot" }, fail])
      const all = [live.id, over.id, published.id, releasing.id, held.id, unknown]
      assert.deepStrictEqual(yield* maintenance.unneeded(all), [over.id, published.id, unknown])
      const publication = (action_state: "publishing" | "failed") =>
        drive(published, [{ _tag: "ReportPublication", data: { repo: "acme/Shop", action_state } }])
      yield* publication("publishing")
      assert.isTrue(yield* leases.rest(lease))
      assert.deepStrictEqual(yield* maintenance.unneeded(all), [over.id, held.id, unknown])
      const { lease: publisher } = yield* leased(published.id, { worker: "publisher", machine })
      yield* leases.release(publisher, { mayMove: false })
      assert.deepStrictEqual(yield* maintenance.unneeded(all), [over.id, held.id, unknown])
      yield* publication("failed")
      assert.deepStrictEqual(yield* maintenance.unneeded(all), [over.id, published.id, held.id, unknown])
      assert.deepStrictEqual(yield* maintenance.unneeded([]), [])
    }))
}

const census = (it: Writer<Stores>) => {
  it.effect("counts what is live, leased and waiting, and what is over no more", () =>
    Effect.gen(function*() {
      const leases = yield* Leases
      const maintenance = yield* Maintenance
      const warm = yield* make()
      const { lease: kept } = yield* leased(warm.id)
      yield* atRest(warm)
      const before = yield* maintenance.census
      // Longer ago than any other test's.
      const longAgo = DateTime.makeUnsafe("2001-01-01T00:00:00.123Z")
      const oldest = yield* make({ createdAt: longAgo })
      const queued = yield* make()
      const { ids, sandbox: asked, turn } = yield* asking
      yield* drive(asked, [request(turn, "call-2")])
      yield* ending()
      const creating = yield* make()
      yield* drive(creating, [{ _tag: "StartBoot" }])
      yield* ended(at)
      const all = yield* maintenance.census
      assert.deepStrictEqual(all, {
        live: {
          queued: before.live.queued + 2,
          creating: before.live.creating + 1,
          running: before.live.running + 1,
          terminating: before.live.terminating + 1
        },
        leased: before.leased,
        resting: before.resting,
        bootsWaiting: before.bootsWaiting + 2,
        oldestQueuedAt: longAgo,
        pendingApprovals: before.pendingApprovals + 2,
        awaitingApproval: before.awaitingApproval + 1
      })
      const { lease } = yield* leased(queued.id)
      const held = yield* maintenance.census
      assert.deepStrictEqual([held.bootsWaiting, held.resting], [0, before.resting])
      yield* leases.release(lease)
      yield* leases.rest(kept)
      const given = yield* maintenance.census
      assert.deepStrictEqual([given.leased, given.bootsWaiting, given.resting], [held.leased - 2, 1, before.resting + 1])
      for (const call of ["call-1", "call-2"]) {
        yield* command(keyOf(asked), decideApproval(ids, call, { decision: "approve" }, decider), at)
      }
      yield* drive(oldest, [{ _tag: "StartBoot" }])
      const later = yield* maintenance.census
      assert.deepStrictEqual([later.pendingApprovals, later.awaitingApproval, later.live.queued, later.live.creating], [
        before.pendingApprovals,
        before.awaitingApproval,
        before.live.queued + 1,
        before.live.creating + 2
      ])
      assert.isTrue(later.oldestQueuedAt !== null && DateTime.isGreaterThan(later.oldestQueuedAt, longAgo))
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<Stores, unknown>) =>
  define(`Maintenance (${name})`, layer, (it) => {
    dueSandboxes(it)
    dueByState(it)
    forgetting(it)
    purging(it)
    keys(it)
    heads(it)
    unneededFiles(it)
    census(it)
    dueByOthers(it)
  })
