import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as WorkerCapacity from "../../src/shared/WorkerCapacity.ts"

const isReady = (reservation: WorkerCapacity.SlotReservation) =>
  Effect.map(Effect.timeoutOption(reservation.ready, 0), (ready) => ready._tag === "Some")
const isWanted = (reservation: WorkerCapacity.SlotReservation) =>
  Effect.map(Effect.timeoutOption(reservation.wanted, 0), (wanted) => wanted._tag === "Some")

it.effect("lets in as many as there are slots, and the others in the order they came", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 2, agents: 8, boots: 8 })
    const reservations = yield* Effect.forEach([1, 2, 3, 4], () => capacity.reserve("agent"))
    const ready = Effect.forEach(reservations, isReady)
    assert.deepStrictEqual(yield* ready, [true, true, false, false])
    assert.deepStrictEqual(yield* capacity.free, { slots: 0, boots: 8, booting: 0 })
    yield* reservations[1]!.close
    assert.deepStrictEqual(yield* ready, [true, true, true, false])
  }))

it.effect("boots no more than it may at once, and lets a turn pass those that wait for that", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 4, agents: 8, boots: 1 })
    const boots = yield* Effect.forEach([1, 2], () => capacity.reserve("boot"))
    const turn = yield* capacity.reserve("agent")
    assert.deepStrictEqual(yield* Effect.forEach([...boots, turn], isReady), [true, false, true])
    assert.strictEqual((yield* capacity.free).booting, 2)
    yield* boots[0]!.booted
    assert.isTrue(yield* isReady(boots[1]!))
  }))

it.effect("boots stand back a moment behind the first ones of many, and no longer", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 16, agents: 16, boots: 3 })
    const many = yield* Effect.forEach(Array.from({ length: 6 }), () => capacity.reserve("boot"))
    const ready = Effect.forEach(many, isReady)
    assert.deepStrictEqual(yield* ready, [true, false, false, false, false, false])
    // Each that ends lets one more begin than it kept back.
    yield* many[0]!.booted
    assert.deepStrictEqual(yield* ready, [true, true, true, false, false, false])
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(yield* ready, [true, true, true, true, false, false])
    yield* many[1]!.close
    yield* many[2]!.booted
    assert.deepStrictEqual(yield* ready, [true, true, true, true, true, true])
    yield* Effect.forEach(many, ({ close }) => close)
    // No boot is left, so that the next ones are the first again.
    const next = yield* Effect.forEach([1, 2], () => capacity.reserve("boot"))
    assert.deepStrictEqual(yield* Effect.forEach(next, isReady), [true, false])
  }))

it.effect("an agent that waits for a person holds no slot, and goes on without one", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 1, agents: 4, boots: 1 })
    const [first, second, third] = yield* Effect.all([capacity.reserve("agent"), capacity.reserve("agent"), capacity.reserve("agent")])
    yield* first.pause
    assert.deepStrictEqual(yield* Effect.forEach([second, third], isReady), [true, false])
    yield* first.resume
    yield* second.close
    // One slot, and the first is in it again.
    assert.isFalse(yield* isReady(third))
    yield* first.rest
    assert.isTrue(yield* isReady(third))
  }))

it.effect("on a full worker the longest idle warm agent gives way, one for each that needs a place", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 3, agents: 3, boots: 3 })
    const agents = yield* Effect.forEach([1, 2, 3], () => capacity.reserve("agent"))
    for (const i of [1, 0, 2]) yield* agents[i]!.rest
    assert.strictEqual((yield* capacity.free).slots, 3)
    const next = yield* capacity.reserve("agent")
    assert.deepStrictEqual(yield* Effect.forEach(agents, isWanted), [false, true, false])
    assert.isFalse(yield* isReady(next))
    assert.isFalse(yield* agents[1]!.work)
    yield* agents[1]!.close
    assert.isTrue(yield* isReady(next))
    yield* capacity.reserve("agent")
    assert.deepStrictEqual(yield* Effect.forEach([agents[0]!, agents[2]!], isWanted), [true, false])
  }))

it.effect("agents at work and those that wait for a person do not give way", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 2, agents: 2, boots: 2 })
    const [working, waiting] = yield* Effect.all([capacity.reserve("agent"), capacity.reserve("agent")])
    yield* waiting.pause
    const next = yield* capacity.reserve("agent")
    assert.deepStrictEqual([yield* isWanted(working), yield* isWanted(waiting), yield* isReady(next)], [false, false, false])
    assert.strictEqual((yield* capacity.free).slots, 0)
    yield* working.rest
    assert.isTrue(yield* isWanted(working))
  }))

it.effect("a warm agent with a turn waits for a slot behind those that came before", () =>
  Effect.gen(function*() {
    const capacity = yield* WorkerCapacity.make({ slots: 1, agents: 4, boots: 1 })
    const warm = yield* capacity.reserve("agent")
    yield* warm.rest
    const [working, queued] = yield* Effect.all([capacity.reserve("agent"), capacity.reserve("agent")])
    const turn = yield* Effect.forkChild(warm.work)
    yield* Effect.yieldNow
    yield* working.close
    yield* Effect.yieldNow
    assert.isTrue(yield* isReady(queued))
    assert.isUndefined(turn.pollUnsafe())
    yield* queued.close
    assert.isTrue(yield* Fiber.join(turn))
  }))
