import { assert, it } from "@effect/vitest"
import { keyState } from "@slipway/domain/access/rules/KeyState"
import * as DateTime from "effect/DateTime"

const now = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const [before, after] = [-1, 1].map((millis) => DateTime.add(now, { milliseconds: millis })) as [DateTime.Utc, DateTime.Utc]

it.each(
  [
    ["active", "without an end", null, null],
    ["active", "until its last millisecond", after, null],
    ["expired", "at its end", now, null],
    ["expired", "after its end", before, null],
    ["revoked", "before its end", after, before],
    ["revoked", "without an end", null, now],
    ["revoked", "also after it expired", before, before]
  ] as const
)("a key is %s %s", (state, _, expiresAt, revokedAt) => {
  assert.strictEqual(keyState({ expiresAt, revokedAt }, now), state)
})
