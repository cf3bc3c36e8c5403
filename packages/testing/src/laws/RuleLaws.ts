/**
 * The laws of rules that an embedder may write anew: fingerprints of requests, the order of leases, budgets, credits, the schedule of
 * webhooks. Each states its rule again in plain arithmetic and shares nothing with the rules that it judges. `checkRules` runs them on the
 * domain's rules, or on yours in their place.
 */
import * as Digest from "@slipway/domain/ids/Digest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as Budget from "@slipway/domain/models/rules/Budget"
import * as Credits from "@slipway/domain/models/rules/Credits"
import * as Webhook from "@slipway/domain/partner/rules/Webhook"
import { fingerprint, resolve } from "@slipway/domain/sandbox/rules/Idempotency"
import { type Leasable, leaseOrder, type Room, type Taker } from "@slipway/domain/sandbox/rules/LeaseRules"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { assert } from "../suite/Assert.ts"
import { define, type Suite } from "../suite/Suite.ts"

/** The rules that the laws judge. */
export interface Rules {
  readonly fingerprint: (request: Json) => string
  readonly resolve: typeof resolve
  readonly leaseOrder: typeof leaseOrder
  readonly budget: Pick<typeof Budget, "afterCharging" | "afterReserving" | "costOf" | "isExhausted" | "refusalOf">
  readonly credits: Pick<typeof Credits, "afterReservingCredits" | "balanceOf" | "creditMicrosOf" | "creditRefusal" | "outOfCredits">
  readonly webhook: Pick<typeof Webhook, "afterAttempt" | "rotated" | "signing" | "standingAfter">
}

/** A decoded request: the body as JSON. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

const domainRules: Rules = {
  fingerprint: (request) => fingerprint(Digest, request),
  resolve,
  leaseOrder,
  budget: Budget,
  credits: Credits,
  webhook: Webhook
}

/** A sentence that holds of rules for everything that can be given. `holds` throws when it does not. */
export interface RuleLaw<A> {
  readonly name: string
  readonly given: Arbitrary.Arbitrary<A>
  holds(rules: Rules, given: A): void
}

const law = <A>(name: string, given: Arbitrary.Arbitrary<A>, holds: (rules: Rules, given: A) => void): RuleLaw<A> => ({
  name,
  given,
  holds
})
const whole = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const list = <A>(item: Schema.Codec<A, unknown>, maxLength: number) => Arbitrary.array(Arbitrary.schema(item), { maxLength })
const start = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (seconds: number) => DateTime.add(start, { seconds })

// ---------------------------------------------------------------------------------------------------------------
// Fingerprints and keys

const Scalar = Schema.NullOr(
  Schema.Literals([true, false, 0, 1, "", "1", "null", "a", "ab", "é", "e\u0301", "[]", "{}", "\"", ","])
)
const Key = Schema.Literals(["a", "b", "ab", "B", "é", "e\u0301", "10", "9", ""])
const entries = Schema.Array(Schema.Tuple([Key, Schema.Union([Scalar, Schema.Array(Scalar), Schema.Array(Schema.Tuple([Key, Scalar]))])]))
const objectOf = (pairs: ReadonlyArray<readonly [string, Json]>): { readonly [key: string]: Json } => Object.fromEntries(pairs)
const isPairs = (value: ReadonlyArray<unknown>): value is ReadonlyArray<readonly [string, Json]> =>
  value.length > 0 && Array.isArray(value[0])
/** Requests with few keys and values that are easily taken for each other. */
const request: Arbitrary.Arbitrary<{ readonly [key: string]: Json }> = Arbitrary.map(
  Arbitrary.schema(entries.check(Schema.isMaxLength(5))),
  (pairs) => objectOf(pairs.map(([key, value]) => [key, Array.isArray(value) && isPairs(value) ? objectOf(value) : value as Json]))
)

const isObject = (value: Json): value is { readonly [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const reversed = (value: Json): Json =>
  Array.isArray(value)
    ? value.map(reversed)
    : isObject(value)
    ? objectOf(Object.entries(value).reverse().map(([key, part]) => [key, reversed(part)]))
    : value
const isSame = (a: Json, b: Json): boolean =>
  Array.isArray(a) && Array.isArray(b)
    ? a.length === b.length && a.every((part, i) => isSame(part, b[i] ?? null))
    : isObject(a) && isObject(b)
    ? Object.keys(a).length === Object.keys(b).length &&
      Object.keys(a).every((key) => Object.hasOwn(b, key) && isSame(a[key] ?? null, b[key] ?? null))
    : a === b

const fingerprintLaws = [
  law("a fingerprint is `1:` and 64 digits, and the same for the same request whatever the order of its keys", request, (rules, given) => {
    assert.match(rules.fingerprint(given), /^1:[0-9a-f]{64}$/u)
    assert.strictEqual(rules.fingerprint(reversed(given)), rules.fingerprint(given))
  }),
  law("different requests have different fingerprints", Arbitrary.all([request, request, Arbitrary.schema(Scalar)]), (rules, given) => {
    const [one, other, scalar] = given
    const near: ReadonlyArray<Json> = [
      other,
      { ...one, a: scalar },
      { ...one, a: [scalar] },
      { ...one, a: [scalar, scalar] },
      { ...one, a: { a: scalar } },
      { ...one, a: [1, 2] },
      { ...one, a: [2, 1] },
      { nested: one },
      [one]
    ]
    const all = [one, ...near].map((json) => ({ json, print: rules.fingerprint(json) }))
    for (const [i, first] of all.entries()) {
      for (const second of all.slice(i + 1)) assert.strictEqual(first.print === second.print, isSame(first.json, second.json))
    }
  }),
  law(
    "a key that is bound answers an equal request again, and no other one",
    Arbitrary.all([request, request]),
    (rules, [bound, asked]) => {
      const of = (json: Json) => ({ key: IdempotencyKey.make("key"), fingerprint: rules.fingerprint(json) })
      const found = rules.resolve(of(bound).fingerprint, of(asked))
      assert.strictEqual(
        Result.isSuccess(found) ? found.success : found.failure._tag,
        isSame(bound, asked) ? "replay" : "IdempotencyConflict"
      )
    }
  )
]

// ---------------------------------------------------------------------------------------------------------------
// The order of leases

const LOST = 300
const Candidate = Schema.Struct({
  grant: Schema.Literals(["a", "b", "c"]),
  work: Schema.NullOr(Schema.Literals(["turn", "boot", "errand"])),
  status: Schema.Literals(["running", "succeeded"]),
  waits: Schema.Literals([0, 1, 299, 300, 900, 901]),
  age: Schema.Literals([0, 1000, 2000]),
  lease: Schema.NullOr(Schema.Struct({ machine: Schema.Literals(["mine", "other"]), ago: Schema.Literals([-600, -1, 0, 299, 300, 600]) })),
  drained: Schema.Boolean,
  unsaved: Schema.Boolean
})
type Candidate = typeof Candidate.Type

const idOf = (n: number) => SandboxId.make(`c_aaaaaaaaaaa${"abcdefghijklmnop"[n]}`)
const leasable = (one: Candidate, n: number): Leasable => ({
  id: idOf(n),
  grantId: one.grant,
  createdAt: after(-one.age),
  status: one.work === "boot" ? "queued" : one.work === "errand" ? one.status : "running",
  work: one.work,
  workSince: one.work === null ? null : after(-one.waits),
  lease: one.lease === null ? null : { machine: one.lease.machine, until: after(-one.lease.ago) },
  drained: one.drained,
  unsaved: one.unsaved
})
const taker: Taker = { machine: "mine", now: start, lost: Duration.seconds(LOST) }
const room = Arbitrary.schema(Schema.Struct({ slots: whole(0, 5), boots: whole(0, 5), errands: whole(0, 3) }))
const candidates = list(Candidate, 9)

/** docs/decisions/15. */
const mayTake = ({ drained, lease, status, unsaved, waits, work }: Candidate): boolean => {
  if (work === null || lease !== null && lease.ago < 0) return false
  const isEnded = work === "errand" && status === "succeeded"
  return lease === null || lease.machine === "mine" || drained && !unsaved || isEnded || Math.min(waits, lease.ago) >= LOST
}
const isBefore = (a: Leasable, b: Leasable): boolean => {
  const [x, y] = [a, b].map(({ createdAt, id, workSince }) => [workSince?.epochMilliseconds ?? 0, createdAt.epochMilliseconds, id] as const)
  if (x === undefined || y === undefined) return false
  return x[0] !== y[0] ? x[0] < y[0] : x[1] !== y[1] ? x[1] < y[1] : x[2] < y[2]
}

const leased = (rules: Rules, given: ReadonlyArray<Candidate>, space: Room) => {
  const all = given.map(leasable)
  const taken = rules.leaseOrder(all, taker, space).map((id) => all.find((one) => one.id === id) ?? assert.fail(`${id} is not one of them`))
  const free = all.filter((_, i) => mayTake(given[i] ?? assert.fail()))
  return { all, taken, free, left: free.filter((one) => !taken.includes(one)) }
}
const isSlotted = ({ work }: Leasable) => work === "boot" || work === "turn"

const leaseLaws = [
  law("a worker is given what needs it, what no other worker has, and each once", Arbitrary.all([candidates, room]), (rules, given) => {
    const { free, taken } = leased(rules, ...given)
    assert.includeMembers(free, taken)
    assert.strictEqual(new Set(taken).size, taken.length)
  }),
  law("a worker is given as much as it has room for, and leaves nothing that fits", Arbitrary.all([candidates, room]), (rules, given) => {
    const [, { boots, errands, slots }] = given
    const { left, taken } = leased(rules, ...given)
    const of = (work: Leasable["work"], all: ReadonlyArray<Leasable>) => all.filter((one) => one.work === work).length
    assert.isAtMost(of("boot", taken), boots)
    assert.isAtMost(of("boot", taken) + of("turn", taken), slots)
    assert.strictEqual(of("errand", taken), Math.min(errands, of("errand", [...taken, ...left])))
    if (of("boot", taken) + of("turn", taken) === slots) return
    assert.strictEqual(of("turn", left), 0)
    if (of("boot", taken) < boots) assert.strictEqual(of("boot", left), 0)
  }),
  law("errands come first, and within a grant the longest waiting first", Arbitrary.all([candidates, room]), (rules, given) => {
    const { left, taken } = leased(rules, ...given)
    assert.isFalse(taken.some((one, i) => one.work === "errand" && taken.slice(0, i).some(isSlotted)))
    for (const [i, one] of taken.entries()) {
      for (const later of [...taken.slice(i + 1), ...left]) {
        const isRival = one.work === later.work && (one.work === "errand" || one.grantId === later.grantId)
        if (isRival) assert.isTrue(isBefore(one, later), `${later.id} waited longer than ${one.id}`)
      }
    }
  }),
  law("grants take turns: none is given a second before each that waits has as many", Arbitrary.all([candidates, room]), (rules, given) => {
    const [all, space] = given
    // Boots have a limit of their own, so that turns stand for both.
    const turns = all.map((one) => ({ ...one, work: one.work === "boot" ? "turn" as const : one.work }))
    const { left, taken, all: known } = leased(rules, turns, space)
    const has = new Map<string, number>()
    const add = (grant: string) => has.set(grant, (has.get(grant) ?? 0) + 1)
    for (const one of known) {
      if (isSlotted(one) && one.lease !== null && one.lease.until.epochMilliseconds > start.epochMilliseconds) add(one.grantId)
    }
    const slotted = taken.filter(isSlotted)
    for (const [i, one] of slotted.entries()) {
      for (const other of [...slotted.slice(i), ...left.filter(isSlotted)]) {
        assert.isAtMost(has.get(one.grantId) ?? 0, has.get(other.grantId) ?? 0, `${one.grantId} came before ${other.grantId}`)
      }
      add(one.grantId)
    }
  }),
  law("the order in which the store has them does not matter", Arbitrary.all([candidates, room]), (rules, [given, space]) => {
    const all = given.map(leasable)
    assert.deepStrictEqual(rules.leaseOrder(all.toReversed(), taker, space), rules.leaseOrder(all, taker, space))
  })
]

// ---------------------------------------------------------------------------------------------------------------
// Budgets and credits

const Amount = Schema.Literals([0, 1, 2, 3, 5, 8, 20, 50])
/** Reserves an amount, or ends the `n`th running request, which took a part of its reservation. */
const Payment = Schema.TaggedUnion({
  Reserve: { amount: Amount },
  End: { n: whole(0, 5), part: Schema.Literals([0, 0.5, 1]) }
})
const payments = list(Payment, 12)
const Limit = Schema.NullOr(Schema.Literals([0, 1, 10, 40, 100]))

const sumOf = (amounts: ReadonlyArray<number>) => amounts.reduce((sum, amount) => sum + amount, 0)
const isTooMuch = (limit: number | null, ...amounts: ReadonlyArray<number>): boolean => limit !== null && sumOf(amounts) > limit

/** The grant's account pays for other sandboxes too. */
const Others = Schema.Struct({ spent: Schema.Literals([0, 5, 30]), reserved: Schema.Literals([0, 5, 30]) })
type Others = typeof Others.Type

interface Paying {
  readonly open: Array<number>
  spent: { readonly sandbox: number; readonly grant: number }
  wanted: { readonly sandbox: number; readonly grant: number }
}

/** Plays payments, and compares the accounts after each with what they should be. */
const pay = (
  rules: Rules,
  limits: Budget.Limits,
  others: Others,
  steps: ReadonlyArray<typeof Payment.Type>
) => {
  const { afterCharging, afterReserving, refusalOf } = rules.budget
  let accounts: Budget.Accounts = { sandbox: Budget.noAccount, grant: { ...Budget.noAccount, ...others } }
  const known: Paying = { open: [], spent: { sandbox: 0, grant: others.spent }, wanted: { sandbox: 0, grant: 0 } }
  const end = (n: number, part: number) => {
    const [reserved = 0] = known.open.splice(n, 1)
    const charged = Math.floor(reserved * part)
    known.spent = { sandbox: known.spent.sandbox + charged, grant: known.spent.grant + charged }
    accounts = {
      sandbox: afterCharging(accounts.sandbox, reserved, charged),
      grant: afterCharging(accounts.grant, reserved, charged)
    }
  }
  for (const step of steps) {
    if (step._tag === "End") {
      if (step.n < known.open.length) end(step.n, step.part)
      continue
    }
    const refusal = refusalOf(accounts, limits, step.amount)
    accounts = afterReserving(accounts, refusal, step.amount)
    if (refusal === null) {
      known.open.push(step.amount)
      known.wanted = { sandbox: 0, grant: 0 }
    } else if (!refusal.held) known.wanted = { ...known.wanted, [refusal.of]: step.amount }
    for (const name of ["sandbox", "grant"] as const) {
      assert.deepStrictEqual([accounts[name].spent, accounts[name].wanted], [known.spent[name], known.wanted[name]])
      assert.strictEqual(accounts[name].reserved, sumOf(known.open) + (name === "grant" ? others.reserved : 0))
      const isUsedUp = isTooMuch(limits[name], known.spent[name], Math.max(known.wanted[name], 1))
      assert.strictEqual(rules.budget.isExhausted(accounts[name], limits[name]), isUsedUp)
    }
  }
  while (known.open.length > 0) end(0, 1)
  for (const name of ["sandbox", "grant"] as const) {
    assert.deepStrictEqual([accounts[name].spent, accounts[name].reserved], [known.spent[name], name === "grant" ? others.reserved : 0])
  }
}

const Limits = Schema.Struct({ sandbox: Limit, grant: Limit })
const Tokens = Schema.Struct({ input: whole(0, 2000), cachedInput: whole(0, 900), cacheWrite: whole(0, 900), output: whole(0, 2000) })
const Price = Schema.Literals([0, 1, 999_999, 1_000_000, 3_000_000])
const Prices = Schema.Struct({ input: Price, cachedInput: Price, cacheWrite: Price, output: Price })
const roundedUp = (amount: bigint, by: bigint) => Number((amount + by - 1n) / by)

const Account = Schema.Struct({
  spent: Schema.Literals([0, 5, 30]),
  reserved: Schema.Literals([0, 5, 30]),
  wanted: Schema.Literals([0, 8, 50])
})
const Accounts = Schema.Struct({ sandbox: Account, grant: Account })

const budgetLaws = [
  law(
    "a request is admitted exactly if it fits into both budgets beside the running ones, and a refusal names the budget that no wait helps",
    Arbitrary.all([Arbitrary.schema(Limits), Arbitrary.schema(Accounts), Arbitrary.schema(Amount)]),
    (rules, [limits, accounts, amount]) => {
      const all = ["grant", "sandbox"] as const
      const short = all.filter((name) => isTooMuch(limits[name], accounts[name].spent, accounts[name].reserved, amount))
      const forGood = short.filter((name) => isTooMuch(limits[name], accounts[name].spent, amount))
      const refusal = rules.budget.refusalOf(accounts, limits, amount)
      assert.strictEqual(refusal !== null, short.length > 0)
      if (refusal === null) return
      assert.strictEqual(refusal.held, forGood.length === 0)
      assert.include(forGood.length > 0 ? forGood : short, refusal.of)
    }
  ),
  law(
    "an account has what was spent, what running requests may still spend, and the last request that it can never pay",
    Arbitrary.all([Arbitrary.schema(Limits), Arbitrary.schema(Others), payments]),
    (rules, [limits, others, steps]) => pay(rules, limits, others, steps)
  ),
  law(
    "an answer costs each token at its price, cached and written ones not twice, rounded up once",
    Arbitrary.all([Arbitrary.schema(Prices), Arbitrary.schema(Tokens)]),
    (rules, [prices, tokens]) => {
      const { cacheWrite, cachedInput, input, output } = tokens
      const parts = [[Math.max(0, input - cachedInput - cacheWrite), prices.input], [cachedInput, prices.cachedInput], [
        cacheWrite,
        prices.cacheWrite
      ], [output, prices.output]]
      const total = parts.reduce((sum, [count = 0, price = 0]) => sum + count * price, 0)
      assert.strictEqual(rules.budget.costOf(prices, tokens), roundedUp(BigInt(total), 1_000_000n))
    }
  )
]

const MOST = Number.MAX_SAFE_INTEGER
const MICROS = 1_000_000
const creditLaws = [
  law(
    "credits are reserved exactly as far as claims reach, and taken as far as requests cost",
    Arbitrary.all([Arbitrary.schema(whole(0, 40)), payments]),
    (rules, [credits, steps]) => {
      const { afterReservingCredits, balanceOf, creditRefusal, outOfCredits } = rules.credits
      const limit = credits * MICROS
      const open: Array<number> = []
      let [account, spent, wanted] = [Budget.noAccount, 0, 0]
      for (const step of steps) {
        if (step._tag === "End") {
          const [reserved] = step.n < open.length ? open.splice(step.n, 1) : []
          if (reserved === undefined) continue
          const charged = Math.floor(reserved * step.part)
          spent += charged
          account = rules.budget.afterCharging(account, reserved, charged)
        } else {
          const micros = Math.min(step.amount, 60) * MICROS / 4
          const refusal = creditRefusal(account, credits, micros)
          assert.strictEqual(refusal === null, !isTooMuch(limit, spent, ...open, micros))
          if (refusal !== null) assert.strictEqual(refusal.held, !isTooMuch(limit, spent, micros))
          account = afterReservingCredits(account, refusal, micros)
          if (refusal === null) open.push(micros)
          wanted = refusal === null ? 0 : refusal.held ? wanted : micros
        }
        assert.deepStrictEqual(account, { spent, reserved: sumOf(open), wanted })
        assert.strictEqual(balanceOf(credits, spent), Math.floor((limit - spent) / MICROS))
        assert.strictEqual(outOfCredits(account, credits) !== null, isTooMuch(limit, spent, Math.max(wanted, 1)))
      }
    }
  ),
  law(
    "a cost in credits is rounded up once, is nothing where credits are not enforced, and saturates",
    Arbitrary.all([Arbitrary.schema(Schema.Union([whole(0, 5000), Schema.Literal(MOST)])), Arbitrary.schema(whole(1, 4_000_000))]),
    (rules, [microUsd, price]) => {
      const { creditMicrosOf } = rules.credits
      const exact = (BigInt(microUsd) * 1_000_000n + BigInt(price) - 1n) / BigInt(price)
      assert.strictEqual(creditMicrosOf(microUsd, price), exact > BigInt(MOST) ? MOST : Number(exact))
      assert.strictEqual(creditMicrosOf(microUsd, null), 0)
    }
  ),
  law(
    "what is left of credits is never below nothing",
    Arbitrary.all([Arbitrary.schema(whole(0, 40)), Arbitrary.schema(whole(0, 60_000_000))]),
    (rules, [credits, charged]) =>
      assert.strictEqual(rules.credits.balanceOf(credits, charged), Math.max(0, Math.floor((credits * MICROS - charged) / MICROS)))
  )
]

// ---------------------------------------------------------------------------------------------------------------
// Webhooks

/** docs/decisions/11.4, seconds. */
const SCHEDULE = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
const ATTEMPTS = SCHEDULE.length + 1
const Outcome = Schema.Union([
  Schema.TaggedStruct("Answered", {
    status: Schema.Literals([199, 200, 204, 299, 300, 301, 404, 408, 409, 410, 429, 500, 503]),
    retryAfter: Schema.NullOr(Schema.Literals([0, 4, 60, 3599, 3600, 3601, 90_000])),
    body: Schema.Null
  }),
  Schema.TaggedStruct("Failed", { trouble: Webhook.Trouble })
])
const Jitter = Schema.Literals([0, 0.25, 0.5, 0.999])
const attempt = Arbitrary.all([Arbitrary.schema(whole(1, ATTEMPTS)), Arbitrary.schema(Outcome), Arbitrary.schema(Jitter)])

const expectedNext = (n: number, outcome: Webhook.Outcome, jitter: number): Webhook.Next => {
  const status = outcome._tag === "Answered" ? outcome.status : 0
  if (status >= 200 && status <= 299) return { _tag: "Delivered" }
  if (status === 410) return { _tag: "Disable", reason: "gone" }
  if (n === ATTEMPTS) return { _tag: "Disable", reason: "retries_exhausted" }
  const asked = outcome._tag === "Answered" ? outcome.retryAfter ?? 0 : 0
  const seconds = Math.max(SCHEDULE[n - 1] ?? 0, asked <= 3600 ? asked : 0)
  return { _tag: "Retry", at: DateTime.add(start, { milliseconds: Math.ceil(seconds * 1000 * (1 + 0.2 * jitter)) }) }
}

const webhookLaws = [
  law(
    "an attempt is repeated on the schedule of docs/decisions/11.4, and nine times at most",
    attempt,
    (rules, [n, outcome, jitter]) =>
      assert.deepStrictEqual(rules.webhook.afterAttempt(n, outcome, start, jitter), expectedNext(n, outcome, jitter))
  ),
  law(
    "an endpoint goes past an event that was delivered and past no other, forgets failures from before it was enabled, and stays disabled",
    Arbitrary.all([attempt, Arbitrary.schema(Schema.Boolean), Arbitrary.schema(Schema.Boolean)]),
    (rules, [[n, outcome, jitter], wasEnabled, isDisabled]) => {
      const next = expectedNext(n, outcome, jitter)
      const isDueAt = wasEnabled ? after(1) : start
      const disabled = isDisabled ? { at: after(2), reason: "gone" } as const : null
      const found = rules.webhook.standingAfter({ attempt: n, sequence: 7, dueAt: start }, next, after(9), { dueAt: isDueAt, disabled })
      const failed = { cursor: 6, failures: n }
      const expected: Webhook.DeliveryProgress = next._tag === "Delivered"
        ? { cursor: 7, failures: 0, dueAt: after(9), disabled }
        : wasEnabled
        ? { cursor: 6, failures: 0, dueAt: isDueAt, disabled }
        : next._tag === "Retry"
        ? { ...failed, dueAt: next.at, disabled }
        : { ...failed, dueAt: after(9), disabled: disabled ?? { at: after(9), reason: next.reason } }
      assert.deepStrictEqual(found, expected)
    }
  ),
  law(
    "a replaced secret signs along for 24 hours and no longer, four of them at most, the newest first",
    list(Schema.Literals([0, 1, 3600, 86_399, 86_400, 90_000]), 8),
    (rules, waits) => {
      const HOURS = 86_400
      let now = 0
      let secrets: ReadonlyArray<Webhook.Secret> = []
      const made: Array<{ readonly name: string; replaced: number | null }> = []
      for (const [n, wait] of waits.entries()) {
        now += wait
        secrets = rules.webhook.rotated(secrets, Redacted.make(`secret ${n}`), after(now))
        for (const one of made) one.replaced ??= now
        made.unshift({ name: `secret ${n}`, replaced: null })
        for (const ahead of [0, 1, HOURS - 1, HOURS]) {
          const then = now + ahead
          const expected = made.slice(0, 5).filter(({ replaced }) => replaced === null || replaced + HOURS > then)
          const signs = rules.webhook.signing(secrets, after(then))
          assert.deepStrictEqual(signs.map(({ value }) => Redacted.value(value)), expected.map(({ name }) => name))
        }
      }
    }
  )
]

// ---------------------------------------------------------------------------------------------------------------

type Check = (run: <A>(law: RuleLaw<A>) => void) => void
const each = (all: ReadonlyArray<RuleLaw<any>>): Check => (run) => all.forEach((one) => run(one))
const checks: ReadonlyArray<Check> = [fingerprintLaws, leaseLaws, budgetLaws, creditLaws, webhookLaws].map((laws) => each(laws))

/** Runs every law of rules. `own`: rules of yours in the place of the domain's. */
export const checkRules = (own: Partial<Rules> = {}, runs = 1000): Suite =>
  define("Laws of rules", Layer.empty, (it) => {
    const rules = { ...domainRules, ...own }
    const run = <A>({ given, holds, name }: RuleLaw<A>) =>
      it.effect.prop(name, [given], ([value]) => Effect.sync(() => holds(rules, value)), {
        arbitrary: { runs, size: 40 },
        // Thousands of runs take seconds on a busy machine.
        timeout: 60_000
      })
    for (const check of checks) check(run)
  })
