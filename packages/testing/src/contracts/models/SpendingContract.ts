/**
 * The rules that every `Spending` must keep. An adapter proves itself by running this suite against its layer: without budgets, with
 * `LIMITS`, and with these and `CREDIT_PRICE`; a rule that is missing here is not part of the port. Fresh ids make it repeatable on one
 * database.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type ModelCall, Spending } from "@slipway/domain/models/ports/Spending"
import { BudgetExceeded, type Limits } from "@slipway/domain/models/rules/Budget"
import { NoCredits } from "@slipway/domain/models/rules/Credits"
import { nothingSpent, noTokenCounts, type TokenCounts } from "@slipway/domain/models/rules/Usage"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class SpendingFixture extends Context.Service<SpendingFixture, {
  /** Id of a new organization. */
  readonly organization: Effect.Effect<string>
  /** Id of a new grant of the organization. */
  grant(organizationId: string): Effect.Effect<string>
  /** Id of a new sandbox of the grant. */
  sandbox(grantId: string): Effect.Effect<SandboxId>
}>()("@slipway/testing/SpendingFixture") {}

/** The `Budgets` of the layer that {@link limited} is given. */
export const LIMITS: Limits = { sandbox: 1000, grant: 1500 }
/** The `CreditPrice` of the layer that {@link credited} is given: a micro-USD is 100,000 micros of a credit. */
export const CREDIT_PRICE = 10

const accountOf = Effect.fnUntraced(function*(organizationId: string) {
  const fixture = yield* SpendingFixture
  const grantId = yield* fixture.grant(organizationId)
  return { grantId, sandboxId: yield* fixture.sandbox(grantId) }
})
const account = Effect.flatMap(SpendingFixture, ({ organization }) => Effect.flatMap(organization, accountOf))
const tokensOf = (input: number, cachedInput: number, output: number): TokenCounts => ({ input, cachedInput, output })
const callOf = (where: Omit<ModelCall, "id">) => Effect.map(Ids.use((ids) => ids.uuid7), (id): ModelCall => ({ id, ...where }))
const refused = <A, R>(self: Effect.Effect<A, unknown, R>) =>
  Effect.map(Effect.flip(self), (error) => {
    assert(error instanceof BudgetExceeded)
    return [error.of, error.held]
  })

/** Whether the credits refused, and whether a wait helps. */
const short = <A, R>(self: Effect.Effect<A, unknown, R>) =>
  Effect.map(Effect.flip(self), (error) => {
    assert(error instanceof NoCredits, String(error))
    return error.held
  })

const charges = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("forgets calls that are over by their age, so many at a time, and nothing of what is spent or reserved", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const [where, releasing] = [yield* account, yield* account]
      const charged = yield* callOf(where)
      const open = yield* callOf(where)
      for (const call of [charged, open, yield* callOf(releasing), yield* callOf(releasing)]) yield* spending.reserve(call, 100)
      yield* spending.charge(charged, 5)
      yield* spending.release(releasing.sandboxId)
      assert.strictEqual(yield* spending.prune(DateTime.makeUnsafe(0), 100), 0)
      yield* spending.charge(charged, 5)
      const spent = { spent: 5, reserved: 100, budget: null, own: false }
      assert.deepStrictEqual(yield* spending.of(where.grantId), spent)
      // Later than any clock here.
      const later = DateTime.makeUnsafe("2100-01-01T00:00:00Z")
      assert.strictEqual(yield* spending.prune(later, 2), 2)
      while ((yield* spending.prune(later, 100)) > 0) continue
      assert.deepStrictEqual(yield* spending.of(where.grantId), spent)
      yield* spending.charge(open, 7)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { ...spent, spent: 12, reserved: 0 })
    }))

  it.effect("adds up what is charged, by sandbox and by grant", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const one = yield* account
      const other = { ...one, sandboxId: yield* (yield* SpendingFixture).sandbox(one.grantId) }
      for (const [where, microUsd] of [[one, 5], [other, 7], [one, 11]] as const) {
        const call = yield* callOf(where)
        yield* spending.reserve(call, 100)
        yield* spending.charge(call, microUsd)
      }
      assert.deepStrictEqual((yield* spending.release(one.sandboxId)).usage, {
        llmRequestCount: 2,
        costMicroUsd: 16,
        creditsChargedMicros: 0
      })
      assert.deepStrictEqual((yield* spending.release(other.sandboxId)).usage, {
        llmRequestCount: 1,
        costMicroUsd: 7,
        creditsChargedMicros: 0
      })
      assert.deepStrictEqual(yield* spending.of(one.grantId), { spent: 23, reserved: 0, budget: null, own: false })
    }))

  it.effect("adds up the tokens of what is charged, by sandbox, each call's once", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const one = yield* account
      const other = { ...one, sandboxId: yield* (yield* SpendingFixture).sandbox(one.grantId) }
      const call = yield* callOf(one)
      yield* spending.reserve(call, 100)
      yield* spending.charge(call, 5, tokensOf(900, 300, 77))
      yield* spending.charge(call, 5, tokensOf(1, 1, 1))
      yield* spending.charge(yield* callOf(one), 0, tokensOf(100, 0, 3))
      yield* spending.charge(yield* callOf(other), 7, tokensOf(1, 0, 2))
      yield* spending.charge(yield* callOf(one), 11)
      assert.deepStrictEqual((yield* spending.release(one.sandboxId)).tokens, tokensOf(1000, 300, 80))
      assert.deepStrictEqual((yield* spending.release(one.sandboxId)).tokens, tokensOf(1000, 300, 80))
      assert.deepStrictEqual((yield* spending.release(other.sandboxId)).tokens, tokensOf(1, 0, 2))
    }))

  it.effect("counts the tokens of a call that was released before it ended, and none of a request that never went out", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const late = yield* callOf(where)
      yield* spending.reserve(late, 100)
      yield* spending.release(where.sandboxId)
      yield* spending.charge(yield* callOf(where), null, tokensOf(5, 5, 5))
      assert.deepStrictEqual((yield* spending.release(where.sandboxId)).tokens, noTokenCounts)
      yield* spending.charge(late, 3, tokensOf(9, 8, 7))
      assert.deepStrictEqual((yield* spending.release(where.sandboxId)).tokens, tokensOf(9, 8, 7))
    }))

  it.effect("loses no tokens when many calls are charged at once", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      yield* Effect.forEach(
        Array.from({ length: 20 }),
        () => Effect.flatMap(callOf(where), (call) => spending.charge(call, 1, tokensOf(3, 2, 1))),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual((yield* spending.release(where.sandboxId)).tokens, tokensOf(60, 40, 20))
    }))
}

const reservations = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("knows nothing of a sandbox and a grant without requests", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      assert.deepStrictEqual(yield* spending.release(where.sandboxId), nothingSpent)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 0, reserved: 0, budget: null, own: false })
      assert.isNull(yield* spending.refusal(where))
    }))

  it.effect("charges a call once and reserves for it once, however often it is told", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const call = yield* callOf(where)
      yield* spending.reserve(call, 100)
      yield* spending.reserve(call, 100)
      assert.strictEqual((yield* spending.of(where.grantId)).reserved, 100)
      yield* spending.charge(call, 5)
      yield* spending.charge(call, 5)
      yield* spending.reserve(call, 100)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 5, reserved: 0, budget: null, own: false })
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.llmRequestCount, 1)
    }))

  it.effect("gives back what is reserved for a sandbox, and charges a call that ends later all the same", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const lost = yield* callOf(where)
      const late = yield* callOf(where)
      const other = { ...where, sandboxId: yield* (yield* SpendingFixture).sandbox(where.grantId) }
      const foreign = yield* callOf(other)
      yield* Effect.forEach([lost, late, foreign], (call) => spending.reserve(call, 100))
      yield* spending.release(where.sandboxId)
      yield* spending.release(where.sandboxId)
      assert.strictEqual((yield* spending.of(where.grantId)).reserved, 100)
      yield* spending.charge(late, 3)
      yield* spending.charge(late, 3)
      yield* spending.charge(foreign, 4)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 7, reserved: 0, budget: null, own: false })
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.costMicroUsd, 3)
    }))

  it.effect("knows the sandboxes that something is reserved for, each once, in the order of their ids, page by page", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const { sandbox } = yield* SpendingFixture
      const ids = [where.sandboxId, yield* sandbox(where.grantId), yield* sandbox(where.grantId)].sort()
      const [first, second, third] = yield* Effect.forEach(ids, (sandboxId) => callOf({ ...where, sandboxId }))
      assert(first !== undefined && second !== undefined && third !== undefined)
      yield* Effect.forEach(
        [first, second, third, yield* callOf({ ...where, sandboxId: second.sandboxId })],
        (call) => spending.reserve(call, 100)
      )
      // Others may be in the ledger.
      const known = Effect.gen(function*() {
        const found: Array<SandboxId> = []
        for (;;) {
          const page = yield* spending.reservedFor(found.at(-1) ?? null, 2)
          if (page.length === 0) return found.filter((id) => ids.includes(id))
          assert.isAtMost(page.length, 2)
          found.push(...page)
        }
      })
      assert.deepStrictEqual(yield* known, ids)
      assert.deepStrictEqual((yield* spending.reservedFor(null, 1_000)).filter((id) => ids.includes(id)), ids)
      yield* spending.charge(first, 1)
      yield* spending.charge(second, 1)
      assert.deepStrictEqual(yield* known, [second.sandboxId, third.sandboxId])
      yield* Effect.forEach(ids, (id) => spending.release(id))
      assert.deepStrictEqual(yield* known, [])
    }))

  it.effect("charges a call that nothing was reserved for", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      yield* spending.charge(yield* callOf(where), 9)
      assert.strictEqual((yield* spending.of(where.grantId)).spent, 9)
    }))
}

const budgets = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("a request that never went out costs nothing and does not count", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const call = yield* callOf(where)
      yield* spending.reserve(call, 100)
      yield* spending.charge(call, null)
      yield* spending.charge(yield* callOf(where), null)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 0, reserved: 0, budget: null, own: false })
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.llmRequestCount, 0)
    }))

  it.effect("takes nothing from credits where they are not enforced", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      assert.strictEqual(spending.creditMicros(1_000_000), 0)
      yield* spending.charge(yield* callOf(where), 1_000_000)
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.creditsChargedMicros, 0)
      assert.isNull(yield* spending.refusal(where))
    }))

  it.effect("saturates", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const most = Number.MAX_SAFE_INTEGER
      for (const _ of [1, 2]) yield* spending.charge(yield* callOf(where), most, tokensOf(most, most, most))
      const { tokens, usage } = yield* spending.release(where.sandboxId)
      assert.deepStrictEqual([usage.costMicroUsd, tokens], [most, tokensOf(most, most, most)])
      assert.strictEqual((yield* spending.of(where.grantId)).spent, Number.MAX_SAFE_INTEGER)
    }))

  it.effect("a grant's own budget holds for it alone, and can be lifted and given back", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const other = yield* account
      assert.deepStrictEqual(yield* spending.setBudget(where.grantId, 10), { spent: 0, reserved: 0, budget: 10, own: true })
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 11)), ["grant", false])
      assert.deepInclude(yield* spending.refusal(where), { _tag: "BudgetExceeded", of: "grant" })
      yield* spending.reserve(yield* callOf(other), 11)
      assert.deepStrictEqual(yield* spending.setBudget(where.grantId, null), { spent: 0, reserved: 0, budget: null, own: true })
      yield* spending.reserve(yield* callOf(where), 11)
      assert.isNull(yield* spending.refusal(where))
      assert.deepStrictEqual(yield* spending.setBudget(where.grantId, "default"), { spent: 0, reserved: 11, budget: null, own: false })
    }))

  it.effect("a budget of nothing allows nothing that costs something", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      yield* spending.setBudget(where.grantId, 0)
      yield* spending.reserve(yield* callOf(where), 0)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 1)), ["grant", false])
      assert.isNotNull(yield* spending.refusal({ ...where, sandboxId: null }))
    }))
}

/** Money that was reserved and spent under another budget. */
const otherBudgets = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("a lowered budget refuses what comes after it, and a request of before is charged whole; a raised one allows more", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      yield* spending.setBudget(where.grantId, 200)
      const before = yield* callOf(where)
      yield* spending.reserve(before, 150)
      assert.deepStrictEqual(yield* spending.setBudget(where.grantId, 50), { spent: 0, reserved: 150, budget: 50, own: true })
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 1)), ["grant", true])
      yield* spending.charge(before, 120)
      assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 120, reserved: 0, budget: 50, own: true })
      assert.deepInclude(yield* spending.refusal(where), { _tag: "BudgetExceeded", of: "grant" })
      yield* spending.setBudget(where.grantId, 130)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 11)), ["grant", false])
      yield* spending.reserve(yield* callOf(where), 10)
    }))
}

/** Budgets of sandboxes of their own. */
const ownBudgets = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("reserves up to the own budget of a sandbox and not a millionth more; others are not concerned", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const own = { ...where, budget: 100 }
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(own), 101)), ["sandbox", false])
      const call = yield* callOf(own)
      yield* spending.reserve(call, 100)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(own), 1)), ["sandbox", true])
      yield* spending.charge(call, 40)
      yield* spending.reserve(yield* callOf(own), 60)
      const other = { ...where, sandboxId: yield* (yield* SpendingFixture).sandbox(where.grantId) }
      yield* spending.reserve(yield* callOf(other), 101)
      assert.deepInclude(yield* spending.of(where.grantId), { spent: 40, reserved: 161 })
    }))

  it.effect("new work is refused when the own budget is spent, after its reservations were given back too", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const own = { ...where, budget: 100 }
      assert.isNull(yield* spending.refusal(where))
      const call = yield* callOf(own)
      yield* spending.reserve(call, 100)
      assert.isNull(yield* spending.refusal(where))
      yield* spending.charge(call, 99)
      assert.isNull(yield* spending.refusal(where))
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(own), 2)), ["sandbox", false])
      assert.deepInclude(yield* spending.refusal(where), { _tag: "BudgetExceeded", of: "sandbox" })
      yield* spending.reserve(yield* callOf(own), 1)
      yield* spending.release(where.sandboxId)
      assert.isNull(yield* spending.refusal(where))
      // A call that does not name the budget, such as one of an earlier version, does not lift it.
      yield* spending.charge(yield* callOf(where), 1)
      assert.deepInclude(yield* spending.refusal(where), { _tag: "BudgetExceeded", of: "sandbox" })
      assert.isNull(yield* spending.refusal({ ...where, sandboxId: null }))
    }))
}

/** For every ledger. */
export const suite = (name: string, layer: Layer.Layer<Spending | Ids | SpendingFixture, unknown>) =>
  define(`Spending (${name})`, layer, (it) => {
    charges(it)
    reservations(it)
    budgets(it)
    otherBudgets(it)
    ownBudgets(it)
    it.effect("has no limit of a sandbox without a setting", () => Effect.map(Spending, ({ sandboxLimit }) => assert.isNull(sandboxLimit)))
  })

const waitingRequests = (it: Writer<Spending | Ids | SpendingFixture>) => {
  it.effect("a request that had to wait for others leaves no budget used up, whatever they cost in the end", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const where = yield* account
      const first = yield* callOf(where)
      yield* spending.reserve(first, 1000)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 400)), ["sandbox", true])
      // Less is left now than the second request asked for, but it was not refused for that.
      yield* spending.charge(first, 700)
      assert.isNull(yield* spending.refusal(where))

      const other = { ...where, sandboxId: yield* (yield* SpendingFixture).sandbox(where.grantId) }
      const second = yield* callOf(other)
      yield* spending.reserve(second, 700)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(other), 200)), ["grant", true])
      yield* spending.charge(second, 650)
      for (const work of [where, other, { ...where, sandboxId: null }]) assert.isNull(yield* spending.refusal(work))
    }))
}

/** The budgets, for a ledger that was built with {@link LIMITS}. */
export const limited = (name: string, layer: Layer.Layer<Spending | Ids | SpendingFixture, unknown>) =>
  define(`Spending within budgets (${name})`, layer, (it) => {
    waitingRequests(it)
    ownBudgets(it)
    it.effect("an own budget limits no more than the operator does, whose limit it says", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        assert.strictEqual(spending.sandboxLimit, LIMITS.sandbox)
        const own = { ...yield* account, budget: 2000 }
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(own), 1001)), ["sandbox", false])
        yield* spending.charge(yield* callOf(own), 1000)
        assert.deepInclude(yield* spending.refusal(own), { _tag: "BudgetExceeded", of: "sandbox" })
      }))

    it.effect("reserves up to the budget of the sandbox and not a millionth more", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const where = yield* account
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 1001)), ["sandbox", false])
        const call = yield* callOf(where)
        yield* spending.reserve(call, 1000)
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 1)), ["sandbox", true])
        yield* spending.charge(call, 400)
        yield* spending.reserve(yield* callOf(where), 600)
        assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 400, reserved: 600, budget: 1500, own: false })
      }))

    it.effect("the grant's budget is that of all its sandboxes; a refusal reserves nothing anywhere", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const one = yield* account
        const two = { ...one, sandboxId: yield* (yield* SpendingFixture).sandbox(one.grantId) }
        yield* spending.charge(yield* callOf(one), 900)
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(two), 601)), ["grant", false])
        yield* spending.reserve(yield* callOf(two), 600)
        assert.deepStrictEqual(yield* spending.of(one.grantId), { spent: 900, reserved: 600, budget: 1500, own: false })
      }))

    it.effect("a grant whose budget is lifted has none, and the default again when that is given back", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const where = yield* account
        const wants = Effect.flatMap(callOf({ ...where, sandboxId: yield* (yield* SpendingFixture).sandbox(where.grantId) }), (call) =>
          spending.reserve(call, 501))
        yield* spending.reserve(yield* callOf(where), 1000)
        assert.deepStrictEqual(yield* refused(wants), ["grant", true])
        assert.deepStrictEqual(yield* spending.setBudget(where.grantId, null), { spent: 0, reserved: 1000, budget: null, own: true })
        yield* wants
        assert.deepStrictEqual(yield* spending.setBudget(where.grantId, "default"), { spent: 0, reserved: 1501, budget: 1500, own: false })
        assert.deepStrictEqual(yield* spending.of(where.grantId), { spent: 0, reserved: 1501, budget: 1500, own: false })
      }))

    it.effect("new work is refused when the budget is spent, or when what is left was too little for a request", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const where = yield* account
        yield* spending.charge(yield* callOf(where), 999)
        assert.isNull(yield* spending.refusal(where))
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 2)), ["sandbox", false])
        assert.deepInclude(yield* spending.refusal(where), { _tag: "BudgetExceeded", of: "sandbox" })
        assert.isNull(yield* spending.refusal({ ...where, sandboxId: null }))
        yield* spending.reserve(yield* callOf(where), 1)
        assert.isNull(yield* spending.refusal(where))

        const spent = yield* account
        yield* spending.charge(yield* callOf(spent), 1500)
        assert.deepInclude(yield* spending.refusal({ ...spent, sandboxId: null }), { _tag: "BudgetExceeded", of: "grant" })
      }))

    it.effect("new work is not refused because others are at work", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const where = yield* account
        yield* spending.reserve(yield* callOf(where), 1000)
        assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 500)), ["sandbox", true])
        assert.isNull(yield* spending.refusal(where))
      }))

    it.effect("spent and reserved never exceed the budget, however many reserve at once", () =>
      Effect.gen(function*() {
        const spending = yield* Spending
        const one = yield* account
        const two = { ...one, sandboxId: yield* (yield* SpendingFixture).sandbox(one.grantId) }
        // Each waits for the others at the same time, and on a busy machine a store answers 50 of them too late.
        const outcomes = yield* Effect.forEach(Array.from({ length: 50 }, (_, i) => i), (i) =>
          Effect.gen(function*() {
            const call = yield* callOf(i % 2 === 0 ? one : two)
            const granted = yield* Effect.match(spending.reserve(call, 100), { onSuccess: () => true, onFailure: () => false })
            const { reserved, spent } = yield* spending.of(one.grantId)
            assert.isAtMost(spent + reserved, 1500)
            if (granted && i % 3 === 0) yield* spending.charge(call, 90)
            return granted
          }), { concurrency: 10 })
        const { reserved, spent } = yield* spending.of(one.grantId)
        assert.isAtMost(spent + reserved, 1500)
        assert.isAtLeast(outcomes.filter((granted) => granted).length, 15)
        assert.isAtLeast(spent + reserved, 1400)
      }))
  })

const give = Effect.fnUntraced(function*(organizationId: string, grantId: string, creditAmount: number) {
  const store = yield* PartnerStore
  const claimId = yield* Ids.use((ids) => ids.uuid7)
  yield* store.createClaim({ claimId, grantId, leadId: "lead", variant: "a", creditAmount })
  yield* store.claim(claimId, { recipientId: "user_1", organizationId })
})

/** An organization with that many credits, and a sandbox of it. */
const rich = Effect.fnUntraced(function*(creditAmount: number) {
  const organizationId = yield* (yield* SpendingFixture).organization
  const where = yield* accountOf(organizationId)
  yield* give(organizationId, where.grantId, creditAmount)
  return { organizationId, where }
})

const creditsOf = (organizationId: string) => PartnerStore.use((store) => store.credits(organizationId))

const creditLimits = (it: Writer<Spending | PartnerStore | Ids | SpendingFixture>) => {
  it.effect("takes what the models of all its grants cost from the organization, once for each request", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(100)
      const other = yield* accountOf(organizationId)
      for (const [at, microUsd] of [[where, 5], [other, 7], [where, 11]] as const) {
        const call = yield* callOf(at)
        yield* spending.reserve(call, 100)
        yield* spending.charge(call, microUsd)
        yield* spending.charge(call, microUsd)
      }
      yield* spending.charge(yield* callOf(where), 0)
      yield* spending.charge(yield* callOf(where), null)
      assert.deepStrictEqual((yield* spending.release(where.sandboxId)).usage, {
        llmRequestCount: 3,
        costMicroUsd: 16,
        creditsChargedMicros: 1_600_000
      })
      assert.strictEqual((yield* spending.release(other.sandboxId)).usage.creditsChargedMicros, 700_000)
      const { balance, charges, movements } = yield* creditsOf(organizationId)
      assert.deepStrictEqual([balance, movements.map(({ credits }) => credits)], [97, [100]])
      // Newest first.
      assert.deepStrictEqual(charges.map(({ micros, sandboxId }) => ({ micros, sandboxId })), [
        { sandboxId: where.sandboxId, micros: 1_600_000 },
        { sandboxId: other.sandboxId, micros: 700_000 }
      ])
      const stranger = yield* creditsOf((yield* rich(1)).organizationId)
      assert.deepStrictEqual([stranger.balance, stranger.charges], [1, []])
    }))

  it.effect("reserves up to the organization's credits and not a millionth more, whichever grant asks", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(50)
      const other = yield* accountOf(organizationId)
      assert.isFalse(yield* short(spending.reserve(yield* callOf(where), 501)))
      const call = yield* callOf(where)
      yield* spending.reserve(call, 500)
      yield* spending.reserve(call, 500)
      assert.isTrue(yield* short(spending.reserve(yield* callOf(other), 1)))
      assert.deepStrictEqual(yield* spending.of(other.grantId), { spent: 0, reserved: 0, budget: 1500, own: false })
      yield* spending.charge(call, 200)
      yield* spending.reserve(yield* callOf(other), 300)
      assert.strictEqual((yield* creditsOf(organizationId)).balance, 30)
    }))

  it.effect("new work is refused without credits, or when what is left was too little for a request; more of them let it on", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const organizationId = yield* (yield* SpendingFixture).organization
      const where = yield* accountOf(organizationId)
      const refusals = Effect.all([spending.refusal({ ...where, sandboxId: null }), spending.refusal(where)])
      for (const refusal of yield* refusals) assert.deepInclude(refusal, { _tag: "NoCredits", held: false })
      yield* give(organizationId, where.grantId, 10)
      assert.deepStrictEqual(yield* refusals, [null, null])
      yield* spending.charge(yield* callOf(where), 99)
      assert.deepStrictEqual(yield* refusals, [null, null])
      assert.isFalse(yield* short(spending.reserve(yield* callOf(where), 2)))
      for (const refusal of yield* refusals) assert.strictEqual(refusal?._tag, "NoCredits")
      yield* give(organizationId, where.grantId, 1)
      assert.deepStrictEqual(yield* refusals, [null, null])
      yield* spending.reserve(yield* callOf(where), 11)
      assert.deepStrictEqual(yield* refusals, [null, null])
    }))

  it.effect("says that there are no credits before it says that a budget is used up", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(150)
      yield* spending.charge(yield* callOf(where), 1500)
      assert.isFalse(yield* short(spending.reserve(yield* callOf(where), 1)))
      assert.strictEqual((yield* spending.refusal(where))?._tag, "NoCredits")
      yield* give(organizationId, where.grantId, 100)
      assert.deepStrictEqual(yield* refused(spending.reserve(yield* callOf(where), 1)), ["grant", false])
      assert.strictEqual((yield* spending.refusal(where))?._tag, "BudgetExceeded")
      // A request that a budget refused reserves no credits.
      const other = yield* accountOf(organizationId)
      yield* spending.reserve(yield* callOf(other), 1000)
    }))
}

const creditReservations = (it: Writer<Spending | PartnerStore | Ids | SpendingFixture>) => {
  it.effect("gives back what is reserved for a sandbox, and charges a call that ends later all the same", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(50)
      const other = yield* accountOf(organizationId)
      const late = yield* callOf(where)
      yield* spending.reserve(late, 300)
      yield* spending.reserve(yield* callOf(where), 200)
      assert.isTrue(yield* short(spending.reserve(yield* callOf(other), 1)))
      yield* spending.release(where.sandboxId)
      yield* spending.release(where.sandboxId)
      const call = yield* callOf(other)
      yield* spending.reserve(call, 500)
      yield* spending.charge(late, 30)
      yield* spending.charge(late, 30)
      yield* spending.charge(call, null)
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.creditsChargedMicros, 3_000_000)
      assert.strictEqual((yield* creditsOf(organizationId)).balance, 47)
      yield* spending.reserve(yield* callOf(other), 470)
    }))

  it.effect("what requests under way take beyond the credits leaves none, and the next ones pay for it first", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(10)
      yield* spending.charge(yield* callOf(where), 130)
      assert.strictEqual((yield* creditsOf(organizationId)).balance, 0)
      yield* give(organizationId, where.grantId, 3)
      assert.strictEqual((yield* spending.refusal(where))?._tag, "NoCredits")
      yield* give(organizationId, where.grantId, 5)
      assert.deepStrictEqual([(yield* creditsOf(organizationId)).balance, yield* spending.refusal(where)], [5, null])
    }))

  it.effect("saturates", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(Number.MAX_SAFE_INTEGER)
      assert.strictEqual((yield* creditsOf(organizationId)).balance, Number.MAX_SAFE_INTEGER)
      for (const _ of [1, 2]) yield* spending.charge(yield* callOf(where), Number.MAX_SAFE_INTEGER)
      assert.strictEqual((yield* spending.release(where.sandboxId)).usage.creditsChargedMicros, Number.MAX_SAFE_INTEGER)
      const { charges } = yield* creditsOf(organizationId)
      assert.deepStrictEqual(charges.map(({ micros }) => micros), [Number.MAX_SAFE_INTEGER])
    }))

  it.effect("however many are charged at once, the movements come to what is gone, and no more is gone than there was", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { organizationId, where } = yield* rich(100)
      const places = [where, yield* accountOf(organizationId), yield* accountOf(organizationId)]
      const outcomes = yield* Effect.forEach(Array.from({ length: 60 }, (_, i) => i), (i) =>
        Effect.gen(function*() {
          const call = yield* callOf(places[i % 3] ?? where)
          const granted = yield* Effect.match(spending.reserve(call, 50), { onSuccess: () => true, onFailure: () => false })
          if (granted) yield* Effect.all([spending.charge(call, 30), spending.charge(call, 30)], { concurrency: "unbounded" })
          return granted
        }), { concurrency: 10 })
      const granted = outcomes.filter((granted) => granted).length
      assert.isAtLeast(granted, 20)
      const usages = yield* Effect.forEach(places, ({ sandboxId }) => spending.release(sandboxId))
      const gone = usages.reduce((sum, { usage }) => sum + usage.creditsChargedMicros, 0)
      assert.strictEqual(gone, granted * 3_000_000)
      assert.isAtMost(gone, 100_000_000)
      const { balance, charges } = yield* creditsOf(organizationId)
      assert.strictEqual(charges.reduce((sum, { micros }) => sum + micros, 0), gone)
      assert.strictEqual(balance, 100 - granted * 3)
    }))
}

/** Credits, for a ledger that was built with {@link LIMITS} and {@link CREDIT_PRICE}. */
export const credited = (name: string, layer: Layer.Layer<Spending | PartnerStore | Ids | SpendingFixture, unknown>) =>
  define(`Spending of credits (${name})`, layer, (it) => {
    creditLimits(it)
    creditReservations(it)
  })
