import { assert, layer } from "@effect/vitest"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Principal } from "../../src/access/schema/Principal.ts"
import { SandboxId } from "../../src/ids/SandboxId.ts"
import { offlineDemo } from "../../src/models/schema/ModelCatalogue.ts"
import { Appended, type LogEntry, SandboxStore } from "../../src/sandbox/ports/SandboxStore.ts"
import type { Creation } from "../../src/sandbox/rules/Sandbox.ts"
import type { SandboxEvent } from "../../src/sandbox/rules/SandboxEvent.ts"
import { type Following, type Frame, PAGE, type Reading, SandboxEvents } from "../../src/sandbox/usecases/SandboxEvents.ts"
import { Hints, type Topic } from "../../src/store/Hints.ts"
import { StoreUnavailable } from "../../src/store/StoreUnavailable.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const by: Principal = {
  credential: { _tag: "Key", keyId: "k" },
  grantId: "g",
  organizationId: "o",
  userId: "u",
  scopes: new Set(),
  test: false
}

const creation = (name: string): Creation => ({
  id: SandboxId.make(`c_${name.padEnd(12, "a")}`),
  grantId: by.grantId,
  createdBy: by.userId,
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
})

const step = (text: string): SandboxEvent => ({ type: "sandbox.boot", data: { stage: "setup", ms: 1, repo: text } })
const failed: SandboxEvent = {
  type: "sandbox.status",
  data: { status: "failed", previous: "queued", reason: "queue_timeout", initiator: "policy" }
}

const write = (id: SandboxId, events: ReadonlyArray<SandboxEvent>) =>
  Effect.flatMap(SandboxStore, (store) => store.change(id, "policy", () => Result.succeed(events), at))

const seqs = (frames: ReadonlyArray<Frame>) =>
  frames.flatMap((frame) => frame._tag === "Entries" ? frame.entries.map(({ seq }) => seq) : [])

/** A log whose answers are old when they arrive: the reader is told what was there when it asked. */
const slow = Layer.effect(
  SandboxStore,
  Effect.map(SandboxStore, (store) => ({
    ...store,
    log: (id: SandboxId, after: number, limit: number) =>
      store.log(id, after, limit).pipe(Effect.tap(() => Effect.repeat(Effect.yieldNow, { times: (after * 7) % 11 })))
  }))
).pipe(Layer.provide(SandboxStoreMemory.layer))

/** Reads of the log that are under way, and how many were at the most. */
const underWay = { now: 0, most: 0 }
const busy = Layer.effect(
  SandboxStore,
  Effect.map(SandboxStore, (store) => ({
    ...store,
    log: (id: SandboxId, after: number, limit: number) =>
      Effect.sync(() => {
        underWay.most = Math.max(underWay.most, ++underWay.now)
      }).pipe(
        Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 10 })),
        Effect.andThen(store.log(id, after, limit)),
        Effect.ensuring(Effect.sync(() => underWay.now--))
      )
  }))
).pipe(Layer.provide(SandboxStoreMemory.layer))

const trouble = { on: false }
const counting: Array<readonly [after: number, limit: number, entries: ReadonlyArray<LogEntry>]> = []
const counted = Layer.effect(
  SandboxStore,
  Effect.map(SandboxStore, (store) => ({
    ...store,
    log: (id: SandboxId, after: number, limit: number) =>
      trouble.on
        ? Effect.fail(new StoreUnavailable({ cause: "planted" }))
        : Effect.tap(store.log(id, after, limit), (entries) => Effect.sync(() => counting.push([after, limit, entries])))
  }))
).pipe(Layer.provide(SandboxStoreMemory.layer))

/** Whether hints arrive. */
const hearing = { on: true }
const deafened = Layer.effect(
  Hints,
  Effect.map(Hints, (hints) => ({
    ...hints,
    publish: (topics: ReadonlyArray<Topic>, note?: unknown) => Effect.suspend(() => hearing.on ? hints.publish(topics, note) : Effect.void)
  }))
).pipe(Layer.provide(HintsMemory.layer))

/** Hints as they come from other processes; `one`: of how many. */
const foreign = (one: number) =>
  Layer.effect(
    Hints,
    Effect.map(Hints, (hints) => {
      let published = 0
      return {
        ...hints,
        publish: (topics: ReadonlyArray<Topic>, note?: unknown) =>
          Effect.suspend(() => hints.publish(topics, ++published % one === 0 ? undefined : note))
      }
    })
  ).pipe(Layer.provide(HintsMemory.layer))
const others = foreign(1)

/** Called when the sandbox was read, before its reader goes on. */
const between: { run: Effect.Effect<unknown, unknown, SandboxStore> } = { run: Effect.void }
const interrupted = Layer.effect(
  SandboxStore,
  Effect.map(SandboxStore, (store) => ({
    ...store,
    find: (query: Parameters<typeof store.find>[0]) =>
      Effect.tap(store.find(query), () => {
        const { run } = between
        between.run = Effect.void
        return Effect.orDie(Effect.provideService(run, SandboxStore, store))
      })
  }))
).pipe(Layer.provide(SandboxStoreMemory.layer))

const on = (store: Layer.Layer<SandboxStore, never, Hints>, hints: Layer.Layer<Hints> = HintsMemory.layer) =>
  SandboxEvents.layer.pipe(Layer.provideMerge(store), Layer.provideMerge(hints))

const commits = [
  ["of this process", HintsMemory.layer],
  ["of others", others],
  ["of both", foreign(3)]
] as const

const collect = ({ frames }: Following) => Effect.map(Stream.runCollect(frames), (collected) => Array.from(collected))

for (const [whose, hints] of commits) {
  layer(on(slow, hints))(`many readers of one log, of commits ${whose}`, (it) => {
    it.effect("all see every event once and in order, and none waits for a hint that is used up", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const events = yield* SandboxEvents
        const { sandbox: { id } } = yield* store.create({ creation: creation("readers"), keyed: null })
        const seen = Array.from({ length: 20 }, (): Array<number> => [])
        const reading = yield* Effect.forEach(seen, (mine, i) =>
          Effect.forkChild(Effect.scoped(Effect.flatMap(events.follow(by, id, i % 2), ({ frames }) =>
            // Some are busy with what they got while the next hints come.
            Stream.runForEach(frames, (frame) =>
              Effect.andThen(
                Effect.sync(() =>
                  mine.push(...seqs([frame]))
                ),
                Effect.repeat(Effect.yieldNow, { times: i })
              ))))))
        for (let round = 0; round < 200; round++) {
          // Some quick commits, then none: a reader that misses the last hint stays behind.
          for (let i = 0; i <= round % 4; i++) {
            yield* write(id, [step(`${round}`)])
            yield* Effect.repeat(Effect.yieldNow, { times: (round + i) % 7 })
          }
          const { lastSeq } = yield* store.find({ grantId: by.grantId, id })
          const behind = () => seen.filter((mine) => mine.at(-1) !== lastSeq).length
          for (let patience = 500; patience > 0 && behind() > 0; patience--) yield* Effect.yieldNow
          assert.strictEqual(behind(), 0, `in round ${round}`)
        }
        yield* write(id, [failed])
        yield* Effect.forEach(reading, Fiber.join)
        const log = (yield* store.log(id, 0, 10_000)).map(({ seq }) => seq)
        for (const [i, mine] of seen.entries()) assert.deepStrictEqual(mine, log.slice(i % 2))
      }))
  })
}

layer(on(busy))("readers that come back all at once", (it) => {
  it.effect("read a few pages at a time, and leave room for others", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const ids = yield* Effect.forEach(["first", "second"], (name) =>
        Effect.map(store.create({ creation: creation(name), keyed: null }), ({ sandbox }) => sandbox.id))
      for (const id of ids) {
        yield* write(id, [...Array.from({ length: 2 * PAGE }, (_, i) =>
          step(`${i}`)), failed])
      }
      const readers = Array.from({ length: 40 }, (_, i) => ids[i % 2] ?? SandboxId.make("c_aaaaaaaaaaaa"))
      const read = yield* Effect.forEach(readers, (id) => Effect.scoped(Effect.flatMap(events.follow(by, id, 0), collect)), {
        concurrency: "unbounded"
      })
      for (const frames of read) assert.strictEqual(seqs(frames).length, 2 * PAGE + 2)
      assert.isAtMost(underWay.most, 4)
    }))
})

layer(on(counted, others))("a reader of what other processes commit", (it) => {
  it.effect("that has caught up reads everything of a commit larger than a page", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("large"), keyed: null })
      const reading = yield* Effect.forkChild(Effect.scoped(Effect.flatMap(events.follow(by, id, null), collect)))
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      yield* write(id, Array.from({ length: 2 * PAGE + 50 }, (_, i) => step(`${i}`)))
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      yield* write(id, [failed])
      assert.strictEqual(seqs(yield* Fiber.join(reading)).length, 2 * PAGE + 51)
    }))

  it.effect("shares the read of a commit with all others that have caught up", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("shared"), keyed: null })
      const reading = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        Effect.forkChild(Effect.scoped(Effect.flatMap(events.follow(by, id, null), collect))))
      yield* Effect.repeat(Effect.yieldNow, { times: 200 })
      counting.length = 0
      yield* write(id, [failed])
      for (const fiber of reading) {
        assert.deepStrictEqual(seqs(yield* Fiber.join(fiber)), [2])
      }
      assert.strictEqual(counting.length, 1)
    }))

  it.effect("takes shorter pages of larger events", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("pages"), keyed: null })
      yield* write(id, Array.from({ length: 100 }, () => step("x".repeat(32 * 1024))))
      yield* write(id, Array.from({ length: 500 }, () => step("x")))
      yield* write(id, [failed])
      counting.length = 0
      yield* Effect.scoped(Effect.flatMap(events.follow(by, id, 0), collect))
      for (const [, , entries] of counting.slice(1)) {
        assert.ok(entries.length <= PAGE)
        assert.ok(entries.reduce((sum, { wire }) => sum + wire.length, 0) < 512 * 1024)
      }
      assert.ok(counting.length < 100)
    }))

  it.effect("hands on no more of a page than a reader may hold, and reads the rest again", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("bounded"), keyed: null })
      yield* write(id, [...Array.from({ length: 5 }, () => step("x".repeat(100 * 1024))), failed])
      const pages: Array<number> = []
      yield* Effect.scoped(Effect.gen(function*() {
        const { reading } = yield* events.follow(by, id, 0)
        for (let news = reading.next(); news !== "over"; news = reading.next()) {
          if (news === "unread") yield* reading.read
          else if (typeof news !== "string" && news._tag === "Entries") pages.push(news.entries.length)
        }
      }))
      assert.deepStrictEqual(pages, [2, 1, 1, 1, 1, 1])
    }))

  it.effect("of a finished sandbox that has everything is told so, and reads nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("over"), keyed: null })
      yield* write(id, [failed])
      assert.ok((yield* Effect.scoped(events.follow(by, id, 2))).nothingLeft)
      assert.ok(!(yield* Effect.scoped(events.follow(by, id, 1))).nothingLeft)
      const fresh = yield* Effect.scoped(Effect.flatMap(events.follow(by, id, null), collect))
      assert.deepStrictEqual(fresh.map(({ _tag }) => _tag), ["Snapshot", "Status"])
      assert.strictEqual((yield* Effect.flip(Effect.scoped(events.follow(by, id, 3))))._tag, "CursorAhead")
    }))

  it.effect("is woken when it asks to be, before it waits and while it does", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("idle"), keyed: null })
      const frames = yield* Effect.scoped(Effect.gen(function*() {
        const { frames, wake } = yield* events.follow(by, id, null)
        wake()
        const reading = yield* Effect.forkChild(Stream.runCollect(Stream.take(frames, 4)))
        yield* Effect.repeat(Effect.yieldNow, { times: 50 })
        wake()
        return Array.from(yield* Fiber.join(reading))
      }))
      assert.deepStrictEqual(frames.map(({ _tag }) => _tag), ["Snapshot", "Status", "Idle", "Idle"])
    }))

  it.effect("ends with the store's error when the log can't be read, and is not left waiting", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("trouble"), keyed: null })
      const reading = yield* Effect.forkChild(Effect.scoped(Effect.flatMap(events.follow(by, id, null), collect)))
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      trouble.on = true
      yield* write(id, [step("unreadable")])
      assert.strictEqual((yield* Effect.flip(Fiber.join(reading)))._tag, "StoreUnavailable")
      trouble.on = false
    }))
})

/** Everything that is at hand, as the events it has. */
const takeAll = (reading: Reading) => {
  const taken: Array<number> = []
  for (;;) {
    const next = reading.next()
    if (typeof next === "string") return { taken, pause: next }
    if (next._tag === "Entries") taken.push(...next.entries.map(({ seq }) => seq))
  }
}

for (const [whose, hints] of commits) {
  layer(on(counted, hints))(`readers that are called, of commits ${whose}`, (it) => {
    it.effect("take each event once and in order, at once or later, and delay no other reader", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const events = yield* SandboxEvents
        const { sandbox: { id } } = yield* store.create({ creation: creation("called"), keyed: null })
        const [quick, slow] = [yield* events.follow(by, id, null), yield* events.follow(by, id, null)]
        const seen = { quick: takeAll(quick.reading).taken, slow: takeAll(slow.reading).taken }
        quick.reading.onChange(() => seen.quick.push(...takeAll(quick.reading).taken))
        let calls = 0
        slow.reading.onChange(() => calls++)
        const count = 3 * PAGE
        for (let i = 0; i < count; i++) {
          yield* write(id, [step(`${i}`)])
          yield* Effect.repeat(Effect.yieldNow, { times: 20 })
          // Only now and then does its socket take something.
          if (i % 70 === 0) seen.slow.push(...takeAll(slow.reading).taken)
        }
        const all = Array.from({ length: count }, (_, i) => i + 2)
        assert.deepStrictEqual(seen.quick, all)
        assert.isAbove(calls, 0)
        for (let { pause, taken } = takeAll(slow.reading);; ({ pause, taken } = takeAll(slow.reading))) {
          seen.slow.push(...taken)
          if (pause !== "unread") break
          yield* slow.reading.read
        }
        assert.deepStrictEqual(seen.slow, all)
      }).pipe(Effect.scoped))

    it.effect("are given the very same events of a commit, page by page, however large it is", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const events = yield* SandboxEvents
        const { sandbox: { id } } = yield* store.create({ creation: creation("same"), keyed: null })
        const given: Array<Array<ReadonlyArray<LogEntry>>> = [[], []]
        for (const mine of given) {
          const { reading } = yield* events.follow(by, id, null)
          takeAll(reading)
          reading.onChange(() => {
            for (let next = reading.next(); next !== "waiting"; next = reading.next()) {
              assert(typeof next !== "string" && next._tag === "Entries" && next.isShared)
              mine.push(next.entries)
            }
          })
        }
        counting.length = 0
        yield* write(id, Array.from({ length: 2 * PAGE + 50 }, (_, i) => step(`${i}`)))
        yield* Effect.repeat(Effect.yieldNow, { times: 50 })
        assert.deepStrictEqual(given[0]?.map(({ length }) => length), [PAGE, PAGE, 50])
        for (const [i, page] of given[0]?.entries() ?? []) assert.strictEqual(given[1]?.[i], page)
        assert.strictEqual(counting.length, 3)
      }).pipe(Effect.scoped))

    it.effect("are not called any more when their scope is closed", () =>
      Effect.gen(function*() {
        const store = yield* SandboxStore
        const events = yield* SandboxEvents
        const { sandbox: { id } } = yield* store.create({ creation: creation("closed"), keyed: null })
        const calls = { left: 0, there: 0 }
        const there = yield* events.follow(by, id, null)
        there.reading.onChange(() => calls.there++)
        yield* Effect.scoped(Effect.map(events.follow(by, id, null), ({ reading }) => reading.onChange(() => calls.left++)))
        yield* write(id, [step("later")])
        yield* Effect.repeat(Effect.yieldNow, { times: 50 })
        assert.deepStrictEqual(calls, { left: 0, there: 1 })
      }).pipe(Effect.scoped))
  })
}

layer(on(counted, deafened))("what this process commits", (it) => {
  const settled = Effect.repeat(Effect.yieldNow, { times: 50 })
  /** A reader that takes what it is called for, and what it was given. */
  const following = Effect.fnUntraced(function*(name: string) {
    const { sandbox: { id } } = yield* SandboxStore.use((store) => store.create({ creation: creation(name), keyed: null }))
    const { reading } = yield* SandboxEvents.use((events) => events.follow(by, id, null))
    takeAll(reading)
    const given: Array<ReadonlyArray<number>> = []
    reading.onChange(() => given.push(takeAll(reading).taken))
    // By then, the tail of the log waits for hints.
    yield* settled
    counting.length = 0
    return { id, given }
  })

  it.effect("is told without being read, however the store is, and what comes at one moment together", () =>
    Effect.gen(function*() {
      const { given, id } = yield* following("told")
      trouble.on = true
      yield* write(id, [step("a"), step("b")])
      yield* write(id, [step("c")])
      assert.deepStrictEqual(given, [], "a commit does not wait for readers")
      yield* settled
      yield* write(id, [step("d")])
      yield* settled
      trouble.on = false
      assert.deepStrictEqual(given, [[2, 3, 4], [5]])
    }).pipe(Effect.scoped))

  it.effect("is read when it does not follow what readers have", () =>
    Effect.gen(function*() {
      const { given, id } = yield* following("gap")
      hearing.on = false
      yield* write(id, [step("unheard")])
      hearing.on = true
      yield* write(id, [step("heard")])
      yield* settled
      assert.deepStrictEqual(given, [[2, 3]])
      assert.strictEqual(counting.length, 1)
    }).pipe(Effect.scoped))

  it.effect("is told once, in the order of the log, whatever the order of its hints", () =>
    Effect.gen(function*() {
      const { given, id } = yield* following("order")
      hearing.on = false
      yield* write(id, [step("first")])
      yield* write(id, [step("second")])
      hearing.on = true
      const [, first, second] = yield* SandboxStore.use((store) => store.log(id, 0, PAGE))
      assert(first !== undefined && second !== undefined)
      const hints = yield* Hints
      yield* hints.publish([id], new Appended([second]))
      yield* settled
      yield* hints.publish([id], new Appended([first]))
      yield* settled
      assert.deepStrictEqual(given, [[2, 3]])
    }).pipe(Effect.scoped))

  it.effect("is read when it is more than is kept for readers that are slow", () =>
    Effect.gen(function*() {
      const { id } = yield* following("much")
      for (let i = 0; i < 2; i++) yield* write(id, Array.from({ length: PAGE - 1 }, () => step("x")))
      yield* settled
      assert.isAbove(counting.length, 0)
      counting.length = 0
      yield* write(id, Array.from({ length: 5 }, () => step("x".repeat(64 * 1024))))
      yield* settled
      assert.isAbove(counting.length, 0)
    }).pipe(Effect.scoped))
})

layer(SandboxEvents.layer.pipe(Layer.provideMerge(SandboxStoreMemory.layer), Layer.provideMerge(deafened)))("a hint that is lost", (it) => {
  it.effect("costs nothing but time: the next one tells of everything before it, once", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("lost"), keyed: null })
      const { reading } = yield* events.follow(by, id, null)
      const seen = takeAll(reading).taken
      reading.onChange(() => seen.push(...takeAll(reading).taken))
      hearing.on = false
      yield* write(id, [step("unheard")])
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      assert.deepStrictEqual(seen, [])
      hearing.on = true
      // The hint that the tick of a layer publishes.
      yield* (yield* Hints).publish([id])
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      yield* (yield* Hints).publish([id])
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      assert.deepStrictEqual(seen, [2])
    }).pipe(Effect.scoped))
})

layer(on(interrupted))("an event that is committed while a stream is opened", (it) => {
  it.effect("comes after the snapshot that does not have it, once", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("between"), keyed: null })
      between.run = Effect.andThen(write(id, [step("in between")]), Effect.repeat(Effect.yieldNow, { times: 50 }))
      const { reading, sandbox } = yield* events.follow(by, id, null)
      assert.strictEqual(sandbox.lastSeq, 1)
      const seen: Array<number> = []
      for (let { pause, taken } = takeAll(reading);; ({ pause, taken } = takeAll(reading))) {
        seen.push(...taken)
        if (pause !== "unread") break
        yield* reading.read
      }
      assert.deepStrictEqual(seen, [2])
    }).pipe(Effect.scoped))
})
