import { assert, describe, it, layer } from "@effect/vitest"
import type { Admission } from "@slipway/domain/access/ports/AccessStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Effect } from "effect"
import * as RememberedRefusals from "../src/server/access/RememberedRefusals.ts"
import { ask, layer as http, mintKey, refused, SANDBOXES } from "../testing/Harness.ts"

const admission = (accepted: boolean, resetSeconds: number): Admission => ({
  principal: {
    credential: { _tag: "Key", keyId: "k" },
    grantId: "g",
    organizationId: "o",
    userId: "u",
    scopes: new Set(["sandboxes"]),
    test: false
  },
  memberActive: true,
  organizationSuspended: false,
  rate: { accepted, remaining: 0, resetSeconds, limit: "credential" }
})

describe("a remembered refusal", () => {
  it("is good for less than a second, and counts its seconds down", () => {
    const refusals = RememberedRefusals.make()
    refusals.remember("digest", admission(false, 40), 10_000)
    const after = (millis: number) => refusals.find("digest", 10_000 + millis)?.rate.resetSeconds ?? null
    assert.deepStrictEqual([after(0), after(1), after(999)], [40, 40, 40])
    assert.isNull(after(1_000))
    assert.isTrue(refusals.isEmpty())
  })

  it("is never good once a slot may be free", () => {
    const refusals = RememberedRefusals.make()
    // Between 0 and 1 second are left of this one, and between 1 and 2 of the other.
    refusals.remember("one", admission(false, 1), 0)
    refusals.remember("two", admission(false, 2), 0)
    assert.isNull(refusals.find("one", 0))
    assert.isNotNull(refusals.find("two", 999))
    assert.isNull(refusals.find("two", 1_000))
  })

  it("is not one of a request that had its slot, and forgets the one before", () => {
    const refusals = RememberedRefusals.make()
    refusals.remember("digest", admission(false, 40), 0)
    refusals.remember("digest", admission(true, 40), 1)
    assert.isNull(refusals.find("digest", 1))
  })

  it("is not good for a clock that goes back", () => {
    const refusals = RememberedRefusals.make()
    refusals.remember("digest", admission(false, 40), 5_000)
    assert.isNull(refusals.find("digest", 4_999))
  })

  it("is dropped for a newer one when there are ten thousand", () => {
    const refusals = RememberedRefusals.make()
    for (let i = 0; i <= 10_000; i++) refusals.remember(`${i}`, admission(false, 40), 0)
    assert.isNull(refusals.find("0", 0))
    assert.isNotNull(refusals.find("1", 0))
    assert.isNotNull(refusals.find("10000", 0))
  })
})

layer(http({ settings: { requestsPerMinute: 2 } }), { excludeTestServices: true })("a key at its limit", (it) => {
  it.effect("that is revoked is told so at once", () =>
    Effect.gen(function*() {
      const { key, record } = yield* mintKey({ scopes: ["sandboxes"] })
      for (const _ of [1, 2]) assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
      for (const _ of [1, 2, 3]) refused(yield* ask(SANDBOXES, { key }), 429, "rate_limited")
      yield* (yield* Access).revokeKey(record.id)
      refused(yield* ask(SANDBOXES, { key }), 401, "unauthorized")
    }))
})
