import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import * as FairScheduler from "../../src/node/FairScheduler.ts"

/** Work whose start is recorded, and that ends on command. */
const world = (limits: FairScheduler.Limits) => {
  const turn = FairScheduler.make(limits)
  const begun: Array<string> = []
  const ends = new Map<string, Deferred.Deferred<void>>()
  const ask = (group: string, key: string, within = 60_000) => {
    const end = Deferred.makeUnsafe<void>()
    ends.set(key, end)
    return Effect.forkChild(
      turn(group, key, within)(Effect.andThen(Effect.sync(() => void begun.push(key)), Deferred.await(end)), () => "late" as const),
      { startImmediately: true }
    )
  }
  const end = (key: string) =>
    Effect.andThen(Deferred.succeed(ends.get(key) ?? Deferred.makeUnsafe<void>(), undefined), Effect.repeat(Effect.yieldNow, { times: 20 }))
  return { ask, begun, end }
}

it.live("starts jobs up to the limit in all and per group, and the groups take turns", () =>
  Effect.gen(function*() {
    const { ask, begun, end } = world({ atOnce: 3, perGroup: 2 })
    for (let i = 1; i <= 5; i++) yield* ask("a", `a${i}`)
    yield* ask("b", "b1")
    yield* ask("b", "b2")
    yield* ask("c", "c1")
    assert.deepStrictEqual(begun, ["a1", "a2", "b1"])
    yield* end("a1")
    yield* end("b1")
    yield* end("a2")
    yield* end("a3")
    assert.deepStrictEqual(begun, ["a1", "a2", "b1", "a3", "b2", "c1", "a4"])
  }))

it.live("runs one job per key at a time, and other keys of the group go first", () =>
  Effect.gen(function*() {
    const { ask, begun, end } = world({ atOnce: 3, perGroup: 3 })
    yield* ask("a", "same")
    const first = begun.length
    yield* ask("a", "same")
    yield* ask("a", "other")
    assert.deepStrictEqual([first, begun], [1, ["same", "other"]])
    yield* end("other")
    assert.deepStrictEqual(begun, ["same", "other"])
  }))

it.live("a job that waits too long fails, an interrupted one leaves the queue, and no turn is lost", () =>
  Effect.gen(function*() {
    const { ask, begun, end } = world({ atOnce: 1, perGroup: 1 })
    yield* ask("a", "first")
    const late = yield* ask("b", "late", 1)
    const gone = yield* ask("c", "gone")
    yield* ask("d", "last")
    assert.strictEqual(yield* Effect.flip(Fiber.join(late)), "late")
    yield* Fiber.interrupt(gone)
    yield* end("first")
    assert.deepStrictEqual(begun, ["first", "last"])
    const next = yield* ask("a", "next")
    yield* end("last")
    yield* Fiber.interrupt(next)
    yield* ask("a", "after")
    assert.deepStrictEqual(begun, ["first", "last", "next", "after"])
  }))

it.live("queued work of one name is shared, and a request after its start begins it anew", () =>
  Effect.gen(function*() {
    const shared = FairScheduler.sharing<number, "late">(FairScheduler.make({ atOnce: 1, perGroup: 1 }), yield* Effect.scope)
    const ends: Array<Deferred.Deferred<void>> = []
    const work = Effect.suspend(() => {
      const end = Deferred.makeUnsafe<void>()
      return Effect.as(Deferred.await(end), ends.push(end))
    })
    const asking = Effect.forkChild(shared("tree", ["a", "box", 60_000], work, () => "late"), { startImmediately: true })
    const first = yield* asking
    while (ends.length === 0) yield* Effect.yieldNow
    const [second, third] = [yield* asking, yield* asking]
    const other = yield* Effect.forkChild(shared("other tree", ["a", "box", 60_000], work, () => "late"), { startImmediately: true })
    // The first caller may be interrupted.
    yield* Fiber.interrupt(second)
    const answers: Array<number> = []
    for (const [i, fiber] of [first, third, other].entries()) {
      while (ends.length <= i) yield* Effect.yieldNow
      assert.strictEqual(ends.length, i + 1)
      const end = ends[i]
      if (end !== undefined) yield* Deferred.succeed(end, undefined)
      answers.push(yield* Fiber.join(fiber))
    }
    assert.deepStrictEqual([answers, ends.length], [[1, 2, 3], 3])
  }).pipe(Effect.scoped))

it.live("shared work whose turn comes too late fails for all its callers, and runs for a later request", () =>
  Effect.gen(function*() {
    const turn = FairScheduler.make({ atOnce: 1, perGroup: 1 })
    const shared = FairScheduler.sharing<string, "late">(turn, yield* Effect.scope)
    const end = Deferred.makeUnsafe<void>()
    const busy = yield* Effect.forkChild(turn("b", "box", 60_000)(Deferred.await(end), () => "late"), { startImmediately: true })
    const asking = (within: number) =>
      Effect.forkChild(Effect.flip(shared("tree", ["a", "box", within], Effect.succeed("done"), () => "late")), { startImmediately: true })
    const [first, second] = [yield* asking(1), yield* asking(60_000)]
    assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], ["late", "late"])
    yield* Deferred.succeed(end, undefined)
    yield* Fiber.join(busy)
    assert.strictEqual(yield* shared("tree", ["a", "box", 60_000], Effect.succeed("done"), () => "late"), "done")
  }).pipe(Effect.scoped))
