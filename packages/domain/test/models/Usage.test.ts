import { assert, describe, it } from "@effect/vitest"
import { addUsage, noUsage, Usage } from "@slipway/domain/models/Usage"
import { Schema } from "effect"

const max = Number.MAX_SAFE_INTEGER

describe("usage", () => {
  it("is three whole numbers from 0 to 2^53−1", () => {
    const accepts = Schema.is(Usage)
    assert.isTrue(accepts({ llmRequestCount: 0, costMicroUsd: max, creditsChargedMicros: 1 }))
    for (const costMicroUsd of [-1, 0.5, max + 1, Infinity, NaN, "1"]) {
      assert.isFalse(accepts({ ...noUsage, costMicroUsd }), String(costMicroUsd))
    }
  })

  it("adds up, each counter for itself", () => {
    assert.deepStrictEqual(
      addUsage({ llmRequestCount: 1, costMicroUsd: 20, creditsChargedMicros: 300 }, {
        llmRequestCount: 4,
        costMicroUsd: 50,
        creditsChargedMicros: 600
      }),
      { llmRequestCount: 5, costMicroUsd: 70, creditsChargedMicros: 900 }
    )
  })

  it("saturates instead of overflowing", () => {
    const full = { llmRequestCount: max, costMicroUsd: max - 1, creditsChargedMicros: max }
    assert.deepStrictEqual(addUsage(full, { llmRequestCount: 1, costMicroUsd: 5, creditsChargedMicros: max }), {
      llmRequestCount: max,
      costMicroUsd: max,
      creditsChargedMicros: max
    })
  })

  it.prop("a sum is usage again, and no less than either part", [Usage, Usage], ([a, b]) => {
    const sum = addUsage(a, b)
    assert.isTrue(Schema.is(Usage)(sum))
    assert.isTrue(sum.costMicroUsd >= a.costMicroUsd && sum.costMicroUsd >= b.costMicroUsd)
  })
})
