import { assert, it } from "@effect/vitest"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"

it.effect("lets a quarter of a second's worth through at once, the rest by and by, and after a pause no more than that", () =>
  Effect.gen(function*() {
    const pace = RateLimiter.make(40)
    let through = 0
    const work = (times: number) =>
      Effect.forkChild(Effect.repeat(Effect.andThen(pace(1), Effect.sync(() => through++)), { times: times - 1 }))
    const first = yield* work(25)
    const counts: Array<number> = []
    for (const pause of ["0 millis", "249 millis", "1 milli", "250 millis", "1 second"] as const) {
      yield* TestClock.adjust(pause)
      counts.push(through)
    }
    assert.deepStrictEqual(counts, [10, 10, 20, 25, 25])
    yield* Fiber.join(first)
    yield* TestClock.adjust("1 hour")
    yield* work(25)
    yield* TestClock.adjust("0 millis")
    assert.strictEqual(through, 35)
  }))

it.effect("waits for as long as one large piece takes", () =>
  Effect.gen(function*() {
    const pace = RateLimiter.make(10)
    let done = false
    yield* Effect.forkChild(Effect.andThen(pace(45), Effect.sync(() => done = true)))
    yield* TestClock.adjust("3 seconds")
    yield* TestClock.adjust("1249 millis")
    assert.isFalse(done)
    yield* TestClock.adjust("1 milli")
    assert.isTrue(done)
  }))

it("an allowance refills with time, and a debt is paid first, however large it was", () => {
  const { debtMillis, take } = RateLimiter.allowance({ perSecond: 100, atOnce: 50 })
  assert.isTrue(take(50, 0))
  assert.isFalse(take(10, 0))
  assert.strictEqual(debtMillis(0), 100)
  assert.strictEqual(debtMillis(40), 60)
  assert.strictEqual(debtMillis(100), 0)
  assert.isFalse(take(1_000_000, 100))
  assert.strictEqual(debtMillis(100), 500)
  // A clock that goes back gives nothing.
  assert.strictEqual(debtMillis(0), 500)
  assert.strictEqual(debtMillis(600), 0)
  assert.isTrue(take(50, 10_000))
  assert.isFalse(take(1, 10_000))
})
