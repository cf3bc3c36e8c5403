import { assert, it } from "@effect/vitest"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const HOUR = Duration.toMillis("1 hour")

/** A machine whose clock somebody set, and a store whose clock is right. */
const scenario = (
  name: string,
  test: (machine: { skew: number; answer: Effect.Effect<void, StoreUnavailable>; readonly storeNow: () => number }) => Effect.Effect<void>,
  first: { readonly skew?: number; readonly answer?: Effect.Effect<void> } = {}
) =>
  it.effect(name, () =>
    Effect.gen(function*() {
      const right = yield* Clock.Clock
      const machine: Parameters<typeof test>[0] = {
        skew: 0,
        answer: Effect.void,
        storeNow: () => right.currentTimeMillisUnsafe(),
        ...first
      }
      const millis = () => right.currentTimeMillisUnsafe() + machine.skew
      const own: Clock.Clock = { ...right, currentTimeMillisUnsafe: millis, currentTimeMillis: Effect.sync(millis) }
      const store = Layer.mock(Maintenance, {
        now: Effect.suspend(() => {
          const now = DateTime.makeUnsafe(machine.storeNow())
          return Effect.as(machine.answer, now)
        })
      })
      const building = Layer.build(StoreClock.layer.pipe(Layer.provide(store))).pipe(Effect.provideService(Clock.Clock, own))
      const [context] = yield* Effect.all([building, TestClock.adjust("10 seconds")], { concurrency: 2 })
      yield* Effect.provide(test(machine), context)
    }))

const now = Effect.map(DateTime.now, ({ epochMilliseconds }) => epochMilliseconds)
const skew = Effect.flatten(Effect.service(StoreClock.ClockSkew))

for (const hours of [-25, -1, 0, 1, 25]) {
  scenario(
    `it is what the store says on a machine whose clock is off by ${hours} hours, and the process knows by how much`,
    ({ storeNow }) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* now, storeNow())
        assert.strictEqual(yield* skew, hours * HOUR)
        assert.strictEqual(StoreClock.skewProblem(yield* skew) === null, hours === 0)
      }),
    { skew: hours * HOUR }
  )
}

scenario("somebody who sets the machine's clock changes nothing", (machine) =>
  Effect.gen(function*() {
    machine.skew = -HOUR
    assert.strictEqual(yield* now, machine.storeNow())
    assert.strictEqual(yield* skew, -HOUR)
  }))

scenario("it is never ahead of the store's, however slow the answers were", (machine) =>
  Effect.gen(function*() {
    assert.isAtMost(yield* now, machine.storeNow())
    assert.isAtLeast(yield* now, machine.storeNow() - 4_000)
  }), { answer: Effect.sleep("4 seconds") })

it("half a minute is off by no more than clocks may be", () => {
  assert.isNull(StoreClock.skewProblem(30_000))
  assert.strictEqual(StoreClock.skewProblem(30_001), "The clock of this machine is 30 seconds ahead of the database's.")
  assert.strictEqual(StoreClock.skewProblem(-HOUR), "The clock of this machine is 3600 seconds behind the database's.")
})
