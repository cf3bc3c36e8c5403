import { assert, describe, it } from "@effect/vitest"
import { expiresAt, isAlive, LINK_LIFE, needsTouch, SessionLifetimes } from "@slipway/domain/access/rules/Session"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

const began = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (duration: Duration.Input) => DateTime.addDuration(began, duration)
const lifetimes = Effect.runSync(Effect.gen(function*() {
  return yield* SessionLifetimes
}))
const seen = (lastSeenAt: DateTime.Utc) => ({ id: "s", userId: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV", createdAt: began, lastSeenAt })

describe("a session", () => {
  it("lasts 12 hours without a request, unless it is told otherwise", () => {
    assert.deepStrictEqual(expiresAt(seen(began), lifetimes), after("12 hours"))
    assert.deepStrictEqual(expiresAt(seen(after("1 day")), lifetimes), after("36 hours"))
    assert.deepStrictEqual(expiresAt(seen(began), { ...lifetimes, idle: Duration.minutes(5) }), after("5 minutes"))
  })

  it("lasts 14 days whatever was requested, unless it is told otherwise", () => {
    assert.deepStrictEqual(expiresAt(seen(after("13 days")), lifetimes), after(Duration.hours(13 * 24 + 12)))
    assert.deepStrictEqual(expiresAt(seen(after(Duration.hours(13 * 24 + 13))), lifetimes), after("14 days"))
    assert.deepStrictEqual(expiresAt(seen(began), { ...lifetimes, absolute: Duration.minutes(5) }), after("5 minutes"))
  })

  it("is alive up to the millisecond before it expires", () => {
    assert.isTrue(isAlive(seen(began), lifetimes, began))
    assert.isTrue(isAlive(seen(began), lifetimes, DateTime.subtract(after("12 hours"), { milliseconds: 1 })))
    assert.isFalse(isAlive(seen(began), lifetimes, after("12 hours")))
    assert.isFalse(isAlive(seen(began), lifetimes, after("1 day")))
  })

  it("is written as seen once a minute at most", () => {
    assert.isFalse(needsTouch(seen(began), began))
    assert.isFalse(needsTouch(seen(began), after("59999 millis")))
    assert.isTrue(needsTouch(seen(began), after("60000 millis")))
    assert.isFalse(needsTouch(seen(began), DateTime.subtract(began, { hours: 1 })))
  })
})

describe("a sign-in link", () => {
  it("lasts 10 minutes", () => assert.strictEqual(Duration.toMillis(LINK_LIFE), 600_000))
})
