import { assert, describe, it } from "@effect/vitest"
import { addTokenCounts, addUsage, isSameSpent, nothingSpent, noUsage } from "@slipway/domain/models/rules/Usage"
import { TokenCounts, Usage } from "@slipway/domain/models/schema/Usage"
import * as Schema from "effect/Schema"

const max = Number.MAX_SAFE_INTEGER

it("a new sandbox has used nothing", () => {
  assert.deepStrictEqual(nothingSpent, {
    usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
    tokens: { input: 0, cachedInput: 0, output: 0 }
  })
})

describe("usage", () => {
  it("is three whole numbers from 0 to 2^53−1", () => {
    const accepts = Schema.is(Usage)
    assert.isTrue(accepts({ llmRequestCount: 0, costMicroUsd: max, creditsChargedMicros: 1 }))
    for (const costMicroUsd of [-1, 0.5, max + 1, Infinity, NaN, "1"]) {
      assert.isFalse(accepts({ ...noUsage, costMicroUsd }), String(costMicroUsd))
    }
    for (const missing of ["llmRequestCount", "costMicroUsd", "creditsChargedMicros"] as const) {
      const { [missing]: _, ...rest } = noUsage
      assert.isFalse(accepts(rest), missing)
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

describe("tokens", () => {
  it("add up, each counter for itself", () =>
    assert.deepStrictEqual(
      addTokenCounts({ input: 1, cachedInput: 20, output: 300 }, { input: 4, cachedInput: 50, output: 600 }),
      { input: 5, cachedInput: 70, output: 900 }
    ))

  it.prop("a sum is tokens again, however large the parts are", [TokenCounts, TokenCounts], ([a, b]) => {
    assert.isTrue(Schema.is(TokenCounts)(addTokenCounts(a, b)))
    assert.deepStrictEqual(addTokenCounts(a, { input: max, cachedInput: max, output: max }), { input: max, cachedInput: max, output: max })
  })

  it("one more of any kind is worth telling", () => {
    const { tokens, usage } = nothingSpent
    assert.isTrue(isSameSpent(nothingSpent, { usage: { ...usage }, tokens: { ...tokens } }))
    for (const name of ["input", "cachedInput", "output"] as const) {
      assert.isFalse(isSameSpent(nothingSpent, { usage, tokens: { ...tokens, [name]: 1 } }), name)
    }
    for (const name of ["llmRequestCount", "costMicroUsd"] as const) {
      assert.isFalse(isSameSpent(nothingSpent, { usage: { ...usage, [name]: 1 }, tokens }), name)
    }
  })
})
