import { assert, describe, it } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { register } from "@slipway/testing/runners/Vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { layer, suites } from "./AccessStore.suites.ts"

register(...suites())

/** A fresh key's `admit`, and its slot. */
const freshKey = Effect.gen(function*() {
  const store = yield* AccessStore
  const ids = yield* Ids
  const { organizationId, userId } = yield* (yield* MemberStore).owner
  const createdAt = yield* DateTime.now
  const { grant } = yield* store.createGrant({ id: yield* ids.uuid7, name: yield* ids.uuid7, organizationId, createdAt })
  const digest = ids.digest(grant.id)
  yield* store.createKey(
    {
      id: yield* ids.uuid7,
      grantId: grant.id,
      userId,
      label: "L",
      prefix: "sbx_live_",
      last4: "aaaa",
      scopes: ["sandboxes"],
      createdAt,
      expiresAt: null
    },
    digest,
    1_000_000
  )
  return (credential: number) =>
    Effect.map(store.admit(digest, { credential, user: 1_000_000, grant: 1_000_000 }), (admission) => admission?.rate)
})

const Pause = Schema.Literals([0, 1, 999, 1000, 10_000, 20_000, 29_999, 30_000, 59_999, 60_000])
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 }))

describe("the rate limit, to the millisecond", () => {
  it.effect("opens again exactly 60 s after the oldest acceptance", () =>
    Effect.gen(function*() {
      const admit = yield* freshKey
      assert.deepStrictEqual(yield* admit(1), { accepted: true, remaining: 0, resetSeconds: 60, limit: "credential" })
      yield* TestClock.adjust("15 seconds")
      assert.deepStrictEqual(yield* admit(1), { accepted: false, remaining: 0, resetSeconds: 45, limit: "credential" })
      yield* TestClock.adjust("44001 millis")
      assert.deepStrictEqual(yield* admit(1), { accepted: false, remaining: 0, resetSeconds: 1, limit: "credential" })
      yield* TestClock.adjust("998 millis")
      assert.deepStrictEqual(yield* admit(1), { accepted: false, remaining: 0, resetSeconds: 1, limit: "credential" })
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* admit(1), { accepted: true, remaining: 0, resetSeconds: 60, limit: "credential" })
    }).pipe(Effect.provide(layer)))

  it.effect.prop(
    "in any 60 s at most the limit is accepted, and nothing is refused below it",
    [Schema.Array(Pause), Limit],
    ([pauses, limit]) =>
      Effect.gen(function*() {
        const admit = yield* freshKey
        const acceptedAt: Array<number> = []
        let now = 0
        for (const pause of pauses) {
          yield* TestClock.adjust(pause)
          now += pause
          const slot = yield* admit(limit)
          const inWindow = acceptedAt.filter((at) => at > now - 60_000)
          assert.strictEqual(slot?.accepted, inWindow.length < limit)
          if (slot?.accepted) acceptedAt.push(now)
          const live = acceptedAt.filter((at) => at > now - 60_000)
          assert.strictEqual(slot?.remaining, limit - live.length)
          assert.strictEqual(slot?.resetSeconds, Math.ceil((live[0]! + 60_000 - now) / 1000))
        }
      }).pipe(Effect.provide(layer)),
    { arbitrary: { runs: 100, size: 30 } }
  )
})
