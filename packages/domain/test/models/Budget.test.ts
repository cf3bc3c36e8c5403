import { assert, describe, it } from "@effect/vitest"
import {
  afterCharging,
  afterReserving,
  costOf,
  countsOf,
  isExhausted,
  noAccount,
  noTokens,
  refusalOf
} from "@slipway/domain/models/rules/Budget"
import { Usd } from "@slipway/domain/models/schema/Budget"
import { formatUsd } from "@slipway/domain/text/FormatUsd"
import * as Schema from "effect/Schema"

const prices = { input: 3_000_000, cachedInput: 300_000, cacheWrite: 3_750_000, output: 15_000_000 }

describe("what an answer costs", () => {
  it("is each token at its price, cached and written ones not twice", () =>
    assert.strictEqual(costOf(prices, { input: 1000, cachedInput: 600, cacheWrite: 100, output: 50 }), 300 * 3 + 180 + 375 + 750))

  it("is rounded up once, over everything", () => {
    const cheap = { input: 1, cachedInput: 1, cacheWrite: 1, output: 1 }
    assert.strictEqual(costOf(cheap, { input: 1, cachedInput: 0, cacheWrite: 0, output: 1 }), 1)
    assert.strictEqual(costOf(cheap, { input: 1_000_000, cachedInput: 0, cacheWrite: 0, output: 1 }), 2)
    assert.strictEqual(costOf(cheap, { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 }), 0)
  })

  it("saturates, and is exact below", () => {
    const most = Number.MAX_SAFE_INTEGER
    assert.strictEqual(costOf({ ...prices, output: most }, { input: 0, cachedInput: 0, cacheWrite: 0, output: most }), most)
    assert.strictEqual(
      costOf({ ...prices, output: 999_999 }, { input: 0, cachedInput: 0, cacheWrite: 0, output: 9_000_000_001 }),
      8_999_991_001
    )
  })

  it("never goes below nothing when a provider counts more cached tokens than tokens", () =>
    assert.strictEqual(costOf(prices, { input: 1, cachedInput: 10, cacheWrite: 0, output: 0 }), 3))
})

describe("what people are told of an answer's tokens", () => {
  const most = Number.MAX_SAFE_INTEGER

  it("is what went in, what of it was cached, and what came out", () =>
    assert.deepStrictEqual(countsOf({ input: 1000, cachedInput: 600, cacheWrite: 100, output: 50 }), {
      input: 1000,
      cachedInput: 600,
      output: 50
    }))

  it("has its bounds, whatever a provider claims", () => {
    assert.deepStrictEqual(countsOf({ input: 3 * most, cachedInput: most, cacheWrite: most, output: 1e300 }), {
      input: most,
      cachedInput: most,
      output: most
    })
    assert.strictEqual(countsOf({ input: 1, cachedInput: 10, cacheWrite: 0, output: 0 }).cachedInput, 1)
  })
})

describe("an amount in US dollars", () => {
  it.each(
    [["0", 0], ["12", 12_000_000], ["12.5", 12_500_000], ["0.000001", 1], ["0.29", 290_000], ["999999999.999999",
      999_999_999_999_999]] as const
  )(
    "%s is exact",
    (text, microUsd) => {
      assert.strictEqual(Schema.decodeSync(Usd)(text), microUsd)
      assert.strictEqual(Schema.decodeSync(Usd)(formatUsd(microUsd)), microUsd)
    }
  )

  it.each(["", "-1", "+1", "1.", ".5", "1,5", "1e3", "0.0000001", "1000000000", " 1", "1 USD"])(
    "%j is invalid",
    (text) => assert.throws(() => Schema.decodeSync(Usd)(text))
  )

  it("is written with two decimals at least", () =>
    assert.deepStrictEqual([0, 1, 290_000, 123_450, 12_000_000, 12_345_678].map(formatUsd), ["0.00", "0.000001", "0.29", "0.12345", "12.00",
      "12.345678"]))
})

describe("a budget", () => {
  const accounts = (spent: number, reserved: number) => ({ sandbox: { ...noAccount, spent, reserved }, grant: noAccount })
  const limits = { sandbox: 100, grant: null }

  it("allows exactly what it is", () => {
    assert.isNull(refusalOf(accounts(40, 50), limits, 10))
    assert.deepInclude(refusalOf(accounts(40, 50), limits, 11), { of: "sandbox", held: true })
    assert.deepInclude(refusalOf(accounts(90, 0), limits, 11), { of: "sandbox", held: false })
  })

  it("names the budget for which no wait helps", () =>
    assert.deepInclude(
      refusalOf({ sandbox: { ...noAccount, spent: 100 }, grant: { ...noAccount, reserved: 5 } }, { sandbox: 100, grant: 5 }, 1),
      {
        of: "sandbox",
        held: false
      }
    ))

  it("is used up when it is spent, or when the last request did not fit into what is left", () => {
    assert.isFalse(isExhausted({ ...noAccount, spent: 99 }, 100))
    assert.isTrue(isExhausted({ ...noAccount, spent: 100 }, 100))
    assert.isTrue(isExhausted({ ...noAccount, spent: 90, wanted: 11 }, 100))
    assert.isFalse(isExhausted({ ...noAccount, spent: 90, wanted: 11 }, 101))
    assert.isFalse(isExhausted({ ...noAccount, spent: 90, wanted: 11 }, null))
    const refused = refusalOf(accounts(90, 0), limits, 11)
    const after = afterReserving(accounts(90, 0), refused, 11)
    assert.deepStrictEqual([after.sandbox.wanted, after.grant.wanted], [11, 0])
    assert.strictEqual(afterReserving(after, null, 5).sandbox.wanted, 0)
  })
})

describe("two budgets", () => {
  const accounts = { sandbox: { ...noAccount, spent: 60, reserved: 30 }, grant: { ...noAccount, spent: 10, reserved: 80 } }
  const limits = { sandbox: 100, grant: 100 }

  it("refuse what exceeds one of them, by the budget that waiting cannot help", () => {
    assert.isNull(refusalOf(accounts, limits, 10))
    assert.deepInclude(refusalOf(accounts, limits, 11), { of: "grant", held: true })
    assert.deepInclude(refusalOf(accounts, limits, 41), {
      of: "sandbox",
      held: false,
      message: "The spending budget of this sandbox is used up."
    })
    assert.deepInclude(refusalOf(accounts, limits, 91), {
      of: "grant",
      held: false,
      message: "The spending budget of this API access grant is used up."
    })
    assert.deepInclude(refusalOf(accounts, { sandbox: 100, grant: null }, 11), { of: "sandbox", held: true })
    assert.isNull(refusalOf(accounts, { sandbox: null, grant: null }, 1_000))
  })

  it("both reserve what is granted, and the budget that refused for good remembers what was wanted", () => {
    assert.deepStrictEqual(afterReserving(accounts, null, 10), {
      sandbox: { spent: 60, reserved: 40, wanted: 0 },
      grant: { spent: 10, reserved: 90, wanted: 0 }
    })
    assert.deepStrictEqual(afterReserving(accounts, refusalOf(accounts, limits, 11), 11), accounts)
    assert.deepStrictEqual(afterReserving(accounts, refusalOf(accounts, limits, 41), 41), {
      ...accounts,
      sandbox: { ...accounts.sandbox, wanted: 41 }
    })
  })

  it("release what was reserved, and charge what was spent", () => {
    assert.deepStrictEqual(afterCharging(accounts.sandbox, 20, 5), { spent: 65, reserved: 10, wanted: 0 })
    assert.deepStrictEqual(afterCharging(accounts.sandbox, 31, 5), { spent: 65, reserved: 0, wanted: 0 })
  })
})

it("an answer without tokens has none of any kind", () =>
  assert.deepStrictEqual(noTokens, { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 }))
