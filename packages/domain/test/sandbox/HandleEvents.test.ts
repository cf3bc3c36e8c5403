import { assert, it } from "@effect/vitest"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { TestClock } from "effect/testing"
import { SandboxId } from "../../src/ids/SandboxId.ts"
import { offlineDemo } from "../../src/models/schema/ModelCatalogue.ts"
import { Maintenance } from "../../src/sandbox/ports/Maintenance.ts"
import { SandboxStore } from "../../src/sandbox/ports/SandboxStore.ts"
import type { SandboxEvent, WireEvent } from "../../src/sandbox/rules/SandboxEvent.ts"
import * as HandleEvents from "../../src/sandbox/usecases/HandleEvents.ts"
import { EVERY, Hints } from "../../src/store/Hints.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const step = (ms: number): SandboxEvent => ({ type: "sandbox.boot", data: { stage: "setup", ms } })
const failed: SandboxEvent = {
  type: "sandbox.status",
  data: { status: "failed", previous: "queued", reason: "queue_timeout", initiator: "policy" }
}

const ALPHABET = "abcdefghjk"
/** The nth sandbox. */
const idOf = (n: number) => SandboxId.make(`c_${`${n}`.padStart(12, "0").replaceAll(/\d/gu, (digit) => ALPHABET[Number(digit)] ?? "")}`)

/** Its first event has the number 1. */
const create = (n: number) =>
  SandboxStore.use((store) =>
    store.create({
      creation: {
        id: idOf(n),
        grantId: `grant ${n % 2}`,
        createdBy: "user",
        title: "title",
        repos: [{ fullName: "acme/shop" }],
        prompt: "prompt",
        model: offlineDemo.id,
        agentRuntime: "opencode",
        reasoningEffort: null,
        toolApprovalMode: "auto",
        metadata: {},
        origin: null,
        continues: null,
        createdAt: at
      },
      keyed: null
    })
  )
const write = (n: number, ...events: ReadonlyArray<SandboxEvent>) =>
  SandboxStore.use((store) => store.change(idOf(n), "policy", () => Result.succeed(events), at))

/** An embedder that notes the calls, and stores its cursor. */
const embedder = () => {
  const calls: Array<string> = []
  const saved = new Map<string, number>()
  const numbers = new Map<string, number>(Array.from({ length: 2000 }, (_, n) => [idOf(n), n]))
  const cursor: HandleEvents.EventCursor = {
    load: () => Effect.sync(() => saved),
    save: (id, position) => Effect.sync(() => saved.set(id, position))
  }
  /** `answer`: what the handler does with an event, after it noted it as `sandbox.event`. */
  const handling = (answer: (call: string, event: WireEvent) => Effect.Effect<unknown, unknown> = () => Effect.void) =>
    HandleEvents.layer({
      cursor,
      handle: (event) =>
        Effect.suspend(() => {
          const call = `${numbers.get(event.sandbox_id)}.${event.id}`
          calls.push(call)
          return answer(call, event)
        })
    })
  const taken = () => calls.splice(0)
  return { handling, saved, taken }
}

const memory = SandboxStoreMemory.layer.pipe(Layer.provideMerge(HintsMemory.layer))
/** Writers are other processes, whose hints are all lost. */
const withoutHints = SandboxStoreMemory.layer.pipe(Layer.provide(HintsMemory.layer), Layer.provideMerge(Layer.fresh(HintsMemory.layer)))

const quiet = Effect.repeat(Effect.yieldNow, { times: 500 })
const later = (duration: Parameters<typeof TestClock.adjust>[0]) => Effect.andThen(TestClock.adjust(duration), quiet)

it.effect("handles the events of all sandboxes, in order within each, earlier ones first and new ones without a wait", () => {
  const { handling, saved, taken } = embedder()
  return Effect.gen(function*() {
    yield* create(1)
    yield* write(1, step(1), step(2))
    yield* Layer.build(handling())
    yield* quiet
    assert.deepStrictEqual(taken(), ["1.1", "1.2", "1.3"])
    yield* create(2)
    yield* write(2, step(1))
    yield* write(1, ...Array.from({ length: 250 }, (_, ms) => step(ms)))
    yield* quiet
    const calls = taken()
    assert.deepStrictEqual(calls.filter((call) => call.startsWith("1.")), Array.from({ length: 250 }, (_, i) => `1.${i + 4}`))
    assert.deepStrictEqual(calls.filter((call) => call.startsWith("2.")), ["2.1", "2.2"])
    assert.deepStrictEqual([...saved], [[idOf(1), 253], [idOf(2), 2]])
    yield* later("10 minutes")
    assert.deepStrictEqual(taken(), [])
  }).pipe(Effect.provide(memory))
})

it.effect("continues after a restart where it stopped, and repeats an event whose handling was cut off", () => {
  const { handling, taken } = embedder()
  return Effect.gen(function*() {
    yield* create(1)
    yield* write(1, step(1), step(2))
    yield* Effect.scoped(Effect.andThen(Layer.build(handling((call) => call === "1.2" ? Effect.never : Effect.void)), quiet))
    assert.deepStrictEqual(taken(), ["1.1", "1.2"])
    yield* write(1, failed)
    yield* Layer.build(handling())
    yield* quiet
    assert.deepStrictEqual(taken(), ["1.2", "1.3", "1.4"])
  }).pipe(Effect.provide(memory))
})

it.effect("calls a failed handler again, after growing waits up to a minute, and handles other sandboxes meanwhile", () => {
  const { handling, taken } = embedder()
  const failures: Record<string, Effect.Effect<unknown, unknown>> = { "1.1": Effect.fail("not now") }
  return Effect.gen(function*() {
    yield* create(1)
    yield* Layer.build(handling((call) => failures[call] ?? Effect.void))
    yield* quiet
    assert.deepStrictEqual(taken(), ["1.1"])
    yield* write(1, step(1))
    yield* create(2)
    yield* quiet
    assert.deepStrictEqual(taken(), ["2.1"])
    for (const wait of [1, 2, 4, 8, 16, 32, 60, 60]) {
      yield* later((wait - 1) * 1000 + 999)
      assert.deepStrictEqual(taken(), [])
      yield* later(1)
      assert.deepStrictEqual(taken(), ["1.1"])
    }
    delete failures["1.1"]
    failures["1.2"] = Effect.die(new Error("a bug"))
    yield* later("1 minute")
    assert.deepStrictEqual(taken(), ["1.1", "1.2"])
    // The waits of another event begin anew.
    failures["1.2"] = Effect.interrupt
    yield* later("1 second")
    assert.deepStrictEqual(taken(), ["1.2"])
    delete failures["1.2"]
    yield* later("2 seconds")
    assert.deepStrictEqual(taken(), ["1.2"])
  }).pipe(Effect.provide(memory))
})

it.effect("repeats an event whose position could not be saved", () => {
  const { saved, taken, handling } = embedder()
  return Effect.gen(function*() {
    yield* create(1)
    let isFull = true
    const set = saved.set.bind(saved)
    saved.set = (id, position) => {
      if (isFull) throw new Error("the disk is full")
      return set(id, position)
    }
    yield* Layer.build(handling())
    yield* quiet
    isFull = false
    yield* later("1 second")
    assert.deepStrictEqual([taken(), [...saved.values()]], [["1.1", "1.1"], [1]])
  }).pipe(Effect.provide(memory))
})

it.effect("handles new sandboxes however many others fail, and those too once their handler works again", () => {
  const { handling, saved, taken } = embedder()
  let isBroken = true
  return Effect.gen(function*() {
    const many = Array.from({ length: 1500 }, (_, n) => n)
    yield* Effect.forEach(many, create, { discard: true })
    yield* Layer.build(handling((call) => isBroken && !call.startsWith("1600.") ? Effect.fail("not now") : Effect.void))
    yield* Effect.repeat(Effect.yieldNow, { times: 20_000 })
    taken()
    yield* create(1600)
    yield* quiet
    assert.include(taken(), "1600.1")
    isBroken = false
    yield* later("2 minutes")
    yield* Effect.repeat(Effect.yieldNow, { times: 20_000 })
    assert.strictEqual(saved.size, 1501)
  }).pipe(Effect.provide(memory))
})

it.effect("finds events that no hint told of after half a minute, or at once when any sandbox may have changed", () => {
  const { handling, taken } = embedder()
  return Effect.gen(function*() {
    yield* Layer.build(handling())
    yield* quiet
    yield* create(1)
    yield* later("29 seconds")
    assert.deepStrictEqual(taken(), [])
    yield* later("1 second")
    assert.deepStrictEqual(taken(), ["1.1"])
    yield* write(1, step(1))
    yield* quiet
    assert.deepStrictEqual(taken(), [])
    yield* Hints.use((hints) => hints.publish([EVERY]))
    yield* quiet
    assert.deepStrictEqual(taken(), ["1.2"])
  }).pipe(Effect.provide(withoutHints))
})

it.effect("reads the events of at most 16 sandboxes at a time", () => {
  const { handling, taken } = embedder()
  return Effect.gen(function*() {
    const many = Array.from({ length: 40 }, (_, n) => n)
    yield* Effect.forEach(many, create, { discard: true })
    const open = yield* Deferred.make<void>()
    yield* Layer.build(handling(() => Deferred.await(open)))
    yield* quiet
    assert.strictEqual(taken().length, 16)
    yield* Deferred.succeed(open, undefined)
    yield* quiet
    assert.strictEqual(taken().length, 24)
  }).pipe(Effect.provide(memory))
})

it.effect("handles an event that was written during the last read of its log, and reads no log without new events", () => {
  const { handling, taken } = embedder()
  let reads = 0
  const second = write(1, step(1))
  const slow = Layer.effect(
    SandboxStore,
    Effect.map(SandboxStore, (store) => ({
      ...store,
      log: (id: SandboxId, after: number, limit: number) =>
        Effect.tap(
          store.log(id, after, limit),
          () => ++reads === 2 ? Effect.andThen(Effect.orDie(Effect.provideService(second, SandboxStore, store)), quiet) : Effect.void
        )
    }))
  ).pipe(Layer.provideMerge(memory))
  let failures = 1
  return Effect.gen(function*() {
    yield* Layer.build(handling((call) => call === "1.2" && failures-- > 0 ? Effect.fail("not now") : Effect.void))
    yield* create(1)
    yield* Effect.andThen(quiet, quiet)
    assert.deepStrictEqual([taken(), reads], [["1.1", "1.2"], 3])
    yield* later("1 second")
    assert.deepStrictEqual([taken(), reads], [["1.2"], 5])
    yield* later("10 minutes")
    assert.strictEqual(reads, 5)
  }).pipe(Effect.provide(slow))
})

it.effect("looks for events at most a tenth of the time, however often any sandbox may have changed", () => {
  const { handling } = embedder()
  let looks = 0
  const slow = Layer.effect(
    Maintenance,
    Effect.map(Maintenance, (maintenance) => ({
      ...maintenance,
      heads: (after: SandboxId | null, limit: number) =>
        Effect.andThen(Effect.andThen(Effect.sync(() => looks++), Effect.sleep("10 seconds")), maintenance.heads(after, limit))
    }))
  ).pipe(Layer.provideMerge(memory))
  return Effect.gen(function*() {
    yield* Layer.build(handling())
    for (const expected of [1, 2]) {
      for (let i = 0; i < 10; i++) {
        yield* quiet
        assert.strictEqual(looks, expected)
        yield* Hints.use((hints) => hints.publish([EVERY]))
        yield* later("10 seconds")
      }
    }
  }).pipe(Effect.provide(slow))
})

it.effect("skips events that were deleted before they could be handled", () => {
  const { handling, saved, taken } = embedder()
  return Effect.gen(function*() {
    yield* create(1)
    yield* write(1, failed)
    yield* create(2)
    yield* Maintenance.use((maintenance) => maintenance.purgeEvents(at, 10))
    yield* Layer.build(handling())
    yield* quiet
    assert.deepStrictEqual([taken(), [...saved.keys()]], [["2.1"], [idOf(2)]])
  }).pipe(Effect.provide(memory))
})
