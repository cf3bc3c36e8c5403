import { assert, describe, it } from "@effect/vitest"
import { format, Timestamp } from "@slipway/domain/time/Timestamp"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const encode = Schema.encodeSync(Timestamp)
const decode = Schema.decodeUnknownResult(Timestamp)

describe("a timestamp", () => {
  it.each([
    ["2026-11-21T02:41:00.123Z", "2026-11-21T02:41:00.123Z"],
    ["2026-11-21T02:41:00Z", "2026-11-21T02:41:00.000Z"],
    ["2026-11-21T03:41:00.1+01:00", "2026-11-21T02:41:00.100Z"]
  ])("%s is written as %s: UTC, exactly three digits", (given, written) => {
    assert.strictEqual(encode(DateTime.makeUnsafe(given)), written)
  })

  it("is read back to the millisecond", () => {
    assert.deepStrictEqual(decode("2026-11-21T02:41:00.123Z"), Result.succeed(DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")))
  })

  it.each(["", "now", "2026-13-01T00:00:00.000Z", "2026-02-30T99:00:00.000Z", 7, null])("refuses %j", (given) => {
    assert.isTrue(Result.isFailure(decode(given)))
  })

  it.prop("keeps every instant", [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 253402300799999 }))], ([millis]) => {
    const instant = DateTime.makeUnsafe(millis)
    assert.deepStrictEqual(decode(encode(instant)), Result.succeed(instant))
  })

  it.prop("is formatted as it is encoded, also before 1970, after 9999 and between milliseconds", [
    Schema.Array(Schema.Finite.check(Schema.isBetween({ minimum: -8.64e15, maximum: 8.64e15 })))
  ], ([instants]) => {
    for (const millis of instants) {
      // The same day twice, and one beside it.
      for (const near of [millis, Math.trunc(millis / 2), Math.trunc(millis / 2) + 1, 0, -1, 86_399_999]) {
        const instant = DateTime.makeUnsafe(near)
        assert.strictEqual(format(instant), encode(instant))
      }
    }
  })
})

it.each(["2026-11-21T00:00:00.000Z", "2026-11-21T01:00:59.001Z", "2026-11-21T23:59:59.999Z"])("formats %s as it is", (text) => {
  assert.strictEqual(format(DateTime.makeUnsafe(text)), text)
})
