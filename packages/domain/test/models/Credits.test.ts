import { assert, describe, it } from "@effect/vitest"
import { afterCharging, noAccount } from "@slipway/domain/models/rules/Budget"
import {
  afterReservingCredits,
  balanceOf,
  creditMicrosOf,
  creditRefusal,
  microsOf,
  outOfCredits
} from "@slipway/domain/models/rules/Credits"
import * as Schema from "effect/Schema"

const MOST = Number.MAX_SAFE_INTEGER
const CENT = 10_000

describe("what a cost comes to in credits", () => {
  it.each([
    [0, CENT, 0],
    [1, CENT, 100],
    [CENT, CENT, 1_000_000],
    [12_345, CENT, 1_234_500],
    // A credit of 3 USD: a third of a millionth is a whole one.
    [1, 3_000_000, 1],
    [4, 3_000_000, 2],
    [9_000_000, 3_000_000, 3_000_000],
    [1, 1, 1_000_000],
    [MOST, 1_000_000, MOST],
    [MOST, 1, MOST],
    [9_007_199_254, 1, 9_007_199_254_000_000]
  ])(
    "%d micro-USD at %d for a credit are %d micros",
    (microUsd, price, micros) => assert.strictEqual(creditMicrosOf(microUsd, price), micros)
  )

  it("is nothing where credits are not enforced", () => assert.strictEqual(creditMicrosOf(MOST, null), 0))
})

describe("what is left", () => {
  it.each([[100, 0, 100], [100, 1, 99], [100, 1_000_000, 99], [100, 99_000_001, 0], [100, 100_000_000, 0], [100, 250_000_000, 0], [0, 1, 0],
    [MOST, 0, MOST], [MOST, 1, MOST - 1]])(
      "of %d credits, when %d micros were taken, is %d",
      (credits, spent, left) => assert.strictEqual(balanceOf(credits, spent), left)
    )

  it("is reserved up to the last millionth, and a wait helps only against what others hold", () => {
    const account = { ...noAccount, spent: 400_000, reserved: 500_000 }
    assert.isNull(creditRefusal(account, 1, 100_000))
    assert.deepInclude(creditRefusal(account, 1, 100_001), { held: true })
    assert.deepInclude(creditRefusal(account, 1, 600_000), { held: true })
    assert.deepInclude(creditRefusal(account, 1, 600_001), {
      held: false,
      message: "The organization has no credits left."
    })
  })

  it("is too little for new work when nothing is left, or less than the last request wanted", () => {
    assert.isNull(outOfCredits({ ...noAccount, spent: 999_999 }, 1))
    assert.isNotNull(outOfCredits({ ...noAccount, spent: 1_000_000 }, 1))
    assert.deepInclude(outOfCredits(noAccount, 0), { held: false })
    assert.isNotNull(outOfCredits({ ...noAccount, spent: 400_000, wanted: 600_001 }, 1))
    assert.isNull(outOfCredits({ ...noAccount, spent: 400_000, wanted: 600_000 }, 1))
    assert.isNull(outOfCredits({ ...noAccount, spent: MOST, wanted: MOST }, MOST))
  })

  it("remembers what was wanted until a request is granted, unless only others were in the way", () => {
    const refusal = creditRefusal(noAccount, 1, 2_000_000)
    const wanting = afterReservingCredits(noAccount, refusal, 2_000_000)
    assert.deepStrictEqual(wanting, { ...noAccount, wanted: 2_000_000 })
    assert.deepStrictEqual(afterReservingCredits(wanting, null, 5), { ...noAccount, reserved: 5 })
    const held = creditRefusal({ ...noAccount, reserved: 1_000_000 }, 1, 1)
    assert.deepStrictEqual(afterReservingCredits({ ...noAccount, reserved: 1_000_000 }, held, 1), { ...noAccount, reserved: 1_000_000 })
  })
})

const Amount = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5_000 }))
const Step = Schema.Struct({ most: Amount, took: Amount, price: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3_000_000 })) })

it.prop(
  "requests that took at most what they reserved never take more than there was",
  [Amount, Schema.Array(Step)],
  ([credits, steps]) => {
    let account = noAccount
    let taken = 0
    for (const { most, price, took } of steps) {
      const reserved = creditMicrosOf(most, price)
      const refusal = creditRefusal(account, credits, reserved)
      account = afterReservingCredits(account, refusal, reserved)
      if (refusal !== null) continue
      const micros = creditMicrosOf(Math.min(took, most), price)
      account = afterCharging(account, reserved, micros)
      taken += micros
    }
    assert.deepStrictEqual([account.spent, account.reserved], [taken, 0])
    assert.isAtMost(taken, microsOf(credits))
    assert.strictEqual(balanceOf(credits, taken), Math.floor((microsOf(credits) - taken) / 1_000_000))
  },
  { arbitrary: { runs: 200 } }
)

it.prop(
  "many small requests are never cheaper than one, and dearer by less than a micro each",
  [Schema.Array(Amount), Step],
  ([costs, { price }]) => {
    const apart = costs.reduce((sum, cost) => sum + creditMicrosOf(cost, price), 0)
    const whole = creditMicrosOf(costs.reduce((sum, cost) => sum + cost, 0), price)
    assert.isAtLeast(apart, whole)
    assert.isAtMost(apart, whole + costs.length)
  },
  { arbitrary: { runs: 200 } }
)
