import { assert, layer } from "@effect/vitest"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Principal } from "../../src/access/Principal.ts"
import type { Hints } from "../../src/Hints.ts"
import { offlineDemo } from "../../src/models/ModelCatalogue.ts"
import type { Creation } from "../../src/sandbox/Sandbox.ts"
import type { SandboxEvent } from "../../src/sandbox/SandboxEvent.ts"
import { type Following, type Frame, PAGE, SandboxEvents } from "../../src/sandbox/SandboxEvents.ts"
import { type LogEntry, SandboxStore } from "../../src/sandbox/SandboxStore.ts"
import { SandboxId } from "../../src/SandboxId.ts"
import { StoreUnavailable } from "../../src/StoreUnavailable.ts"

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

const on = (store: Layer.Layer<SandboxStore, never, Hints>) =>
  SandboxEvents.layer.pipe(Layer.provideMerge(store), Layer.provideMerge(HintsMemory.layer))

const collect = ({ frames }: Following) => Effect.map(Stream.runCollect(frames), (collected) => Array.from(collected))

layer(on(slow))("many readers of one log", (it) => {
  it.effect("all see every event once and in order, and none waits for a hint that is used up", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("readers"), keyed: null, organizationId: null })
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
        // Some commits in quick succession, and then none: whoever misses the last hint stays behind.
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

layer(on(counted))("a reader", (it) => {
  it.effect("that has caught up reads everything of a commit larger than a page", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("large"), keyed: null, organizationId: null })
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
      const { sandbox: { id } } = yield* store.create({ creation: creation("shared"), keyed: null, organizationId: null })
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
      const { sandbox: { id } } = yield* store.create({ creation: creation("pages"), keyed: null, organizationId: null })
      yield* write(id, Array.from({ length: 100 }, () => step("x".repeat(64 * 1024))))
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

  it.effect("of a finished sandbox that has everything is told so, and reads nothing", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* store.create({ creation: creation("over"), keyed: null, organizationId: null })
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
      const { sandbox: { id } } = yield* store.create({ creation: creation("idle"), keyed: null, organizationId: null })
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
      const { sandbox: { id } } = yield* store.create({ creation: creation("trouble"), keyed: null, organizationId: null })
      const reading = yield* Effect.forkChild(Effect.scoped(Effect.flatMap(events.follow(by, id, null), collect)))
      yield* Effect.repeat(Effect.yieldNow, { times: 50 })
      trouble.on = true
      yield* write(id, [step("unreadable")])
      assert.strictEqual((yield* Effect.flip(Fiber.join(reading)))._tag, "StoreUnavailable")
      trouble.on = false
    }))
})
