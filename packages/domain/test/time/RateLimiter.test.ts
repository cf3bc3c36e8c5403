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

it.effect("begins the next quarter where the last one ended, however often it is asked meanwhile", () =>
  Effect.gen(function*() {
    const pace = RateLimiter.make(4_000)
    const through: Array<string> = []
    const work = (name: string, amount: number) => Effect.forkChild(Effect.andThen(pace(amount), Effect.sync(() => through.push(name))))
    yield* work("a quarter's worth", 1_000)
    yield* TestClock.adjust("200 millis")
    yield* work("one more", 1)
    yield* TestClock.adjust("49 millis")
    assert.deepStrictEqual(through, ["a quarter's worth"])
    yield* TestClock.adjust("1 milli")
    assert.deepStrictEqual(through, ["a quarter's worth", "one more"])
    yield* work("another quarter's worth", 1_000)
    yield* TestClock.adjust("249 millis")
    assert.strictEqual(through.length, 2)
    yield* TestClock.adjust("1 milli")
    assert.strictEqual(through.length, 3)
  }))

it("a debt is told in whole milliseconds, rounded up, and none is told while something is left", () => {
  const { debtMillis, take } = RateLimiter.allowance({ perSecond: 1_000, atOnce: 1_000 })
  assert.strictEqual(debtMillis(0), 0)
  assert.isTrue(take(999.5, 0))
  assert.strictEqual(debtMillis(0), 0)
  assert.isFalse(take(1_000.5, 0))
  assert.strictEqual(debtMillis(0), 1_000)
  assert.strictEqual(debtMillis(999), 1)
  assert.strictEqual(debtMillis(1_000), 0)
  const slow = RateLimiter.allowance({ perSecond: 3, atOnce: 1 })
  assert.isFalse(slow.take(2, 0))
  assert.strictEqual(slow.debtMillis(0), 334)
  const half = RateLimiter.allowance({ perSecond: 3, atOnce: 1 })
  assert.isTrue(half.take(0.5, 0))
  assert.strictEqual(half.debtMillis(0), 0)
})

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
