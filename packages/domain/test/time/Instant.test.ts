import { assert, describe, it } from "@effect/vitest"
import * as Instant from "@slipway/domain/time/Instant"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"

// A year before 1970 and one after it.
const millis = Schema.Int.check(Schema.isBetween({ minimum: -31_536_000_000, maximum: 31_536_000_000 }))
const few = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 }))

describe("an instant", () => {
  it.prop("later by a duration equals the instant of DateTime in every property", [millis, millis], ([start, length]) => {
    const at = DateTime.makeUnsafe(start)
    const duration = Duration.millis(Math.abs(length))
    const later = Instant.addDuration(at, duration)
    const expected = DateTime.addDuration(at, duration)
    assert.isTrue(DateTime.isDateTime(later))
    assert.isTrue(Equal.equals(later, expected))
    assert.deepStrictEqual(later, expected)
    assert.strictEqual(JSON.stringify(later), JSON.stringify(expected))
    assert.deepStrictEqual(DateTime.toPartsUtc(later), DateTime.toPartsUtc(expected))
    assert.deepStrictEqual(Object.getOwnPropertyDescriptors(later), Object.getOwnPropertyDescriptors(expected))
  })

  it("is what it was when a later one is made of it, whatever was asked of it", () => {
    const at = DateTime.makeUnsafe("2026-11-24T12:00:00.000Z")
    assert.strictEqual(DateTime.toPartsUtc(at).hour, 12)
    assert.strictEqual(DateTime.toPartsUtc(Instant.addDuration(at, Duration.hours(1))).hour, 13)
    assert.strictEqual(DateTime.toPartsUtc(at).hour, 12)
  })

  it.prop("is compared as DateTime does", [few, few], ([a, b]) => {
    const [first, second] = [DateTime.makeUnsafe(a), DateTime.makeUnsafe(b)]
    assert.strictEqual(Instant.Order(first, second), DateTime.Order(first, second))
    assert.strictEqual(Instant.isLessThan(first, second), DateTime.isLessThan(first, second))
    assert.strictEqual(Instant.isLessThanOrEqualTo(first, second), DateTime.isLessThanOrEqualTo(first, second))
    assert.strictEqual(Instant.isGreaterThan(first, second), DateTime.isGreaterThan(first, second))
    assert.strictEqual(Instant.isGreaterThanOrEqualTo(first, second), DateTime.isGreaterThanOrEqualTo(first, second))
    assert.deepStrictEqual(Instant.min(first, second), DateTime.min(first, second))
    assert.deepStrictEqual(Instant.max(first, second), DateTime.max(first, second))
  })

  it("is the second of two equal ones where one is chosen", () => {
    const [first, second] = [DateTime.makeUnsafe(1), DateTime.makeUnsafe(1)]
    assert.isTrue(Instant.min(first, second) === second && Instant.max(first, second) === second)
  })
})
