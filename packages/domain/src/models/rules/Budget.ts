/**
 * Budgets: limits of the lifetime model cost of one sandbox, and of all sandboxes of a grant. Amounts are in micro-USD: 1 USD is
 * 1,000,000.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import { saturatingAdd } from "../../text/Counters.ts"
import { formatUsd } from "../../text/FormatUsd.ts"
import type { Prices } from "../schema/ModelCatalogue.ts"
import type { TokenCounts } from "./Usage.ts"

const MILLION = 1_000_000n

/** The tokens of one answer of a model. `input` includes `cachedInput` and `cacheWrite`. */
export interface Tokens {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
}

/** The tokens of a request without an answer. */
export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 }

/** Sanitizes the counts of a provider for display: each is a valid counter, and `cachedInput` is at most `input`. */
export const countsOf = ({ cachedInput, input, output }: Tokens): TokenCounts => {
  const whole = saturatingAdd(input, 0)
  return { input: whole, cachedInput: Math.min(cachedInput, whole), output: saturatingAdd(output, 0) }
}

/** The cost in micro-USD, rounded up once for the whole answer. Saturates. */
export const costOf = (prices: Prices, { cacheWrite, cachedInput, input, output }: Tokens): number => {
  const total = [
    [Math.max(0, input - cachedInput - cacheWrite), prices.input],
    [cachedInput, prices.cachedInput],
    [cacheWrite, prices.cacheWrite],
    [output, prices.output]
  ].reduce((sum, [tokens = 0, price = 0]) => sum + BigInt(tokens) * BigInt(price), 0n)
  const cost = (total + MILLION - 1n) / MILLION
  return Math.min(Number(cost), Number.MAX_SAFE_INTEGER)
}

/** `null`: no limit. */
export interface Limits {
  readonly sandbox: number | null
  /** The limit of grants that have no limit of their own. */
  readonly grant: number | null
}

/** The limits, a setting. */
export const Budgets = Context.Reference<Limits>("@slipway/domain/Budgets", {
  defaultValue: () => ({ sandbox: null, grant: null })
})

/** The limits for a sandbox with a budget of its own, which never exceeds the operator's. `own`: `null` or absent: it has none. */
export const withOwn = (limits: Limits, own: number | null | undefined): Limits =>
  own == null ? limits : { ...limits, sandbox: Math.min(own, limits.sandbox ?? own) }

/** A sandbox's own budget is above the operator's limit, or nothing enforces budgets. A retry fails again. */
export class BudgetTooLarge extends Data.TaggedError("BudgetTooLarge")<{
  /** `null`: the service keeps no accounts. */
  readonly limit: number | null
}> {
  override get message() {
    return this.limit === null
      ? "budgetMicroUsd: this service enforces no budgets"
      : `budgetMicroUsd: at most ${this.limit} expected, the operator's limit of a sandbox (${formatUsd(this.limit)} US dollars)`
  }
}

/** A grant's own limit; `null`: no limit, whatever the setting is; `default`: the setting. */
export type GrantBudget = number | null | "default"

/** The account of a sandbox or a grant, in micro-USD. */
export interface Account {
  readonly spent: number
  /** Upper bounds of the running requests. */
  readonly reserved: number
  /** The last refused reservation, if none succeeded since. The rest of the budget is too small for it. */
  readonly wanted: number
}

/** The account before the first request. */
export const noAccount: Account = { spent: 0, reserved: 0, wanted: 0 }

/** Whether the budget is used up even without running requests. */
export const isExhausted = ({ spent, wanted }: Account, limit: number | null): boolean =>
  limit !== null && saturatingAdd(spent, Math.max(wanted, 1)) > limit

/**
 * A budget is used up. `held`: running requests have reserved the rest, so the same reservation may succeed when they end. Otherwise
 * only a higher budget helps.
 */
export class BudgetExceeded extends Data.TaggedError("BudgetExceeded")<{ readonly of: "sandbox" | "grant"; readonly held: boolean }> {
  override get message() {
    return this.of === "sandbox"
      ? "The spending budget of this sandbox is used up."
      : "The spending budget of this API access grant is used up."
  }
}

/** The accounts that every call is paid from. */
export interface Accounts {
  readonly sandbox: Account
  readonly grant: Account
}

const each = ["grant", "sandbox"] as const

/** Why `microUsd` cannot be reserved; `null`: it can. */
export const refusalOf = (accounts: Accounts, limits: Limits, microUsd: number): BudgetExceeded | null => {
  const short = each.filter((of) => {
    const limit = limits[of]
    return limit !== null && saturatingAdd(saturatingAdd(accounts[of].spent, accounts[of].reserved), microUsd) > limit
  })
  const final = short.find((of) => saturatingAdd(accounts[of].spent, microUsd) > (limits[of] ?? Infinity))
  const of = final ?? short[0]
  return of === undefined ? null : new BudgetExceeded({ of, held: final === undefined })
}

/** The accounts after an attempt to reserve `microUsd`. `refusal`: the result of the attempt. */
export const afterReserving = (accounts: Accounts, refusal: BudgetExceeded | null, microUsd: number): Accounts => {
  const next = (account: Account, of: BudgetExceeded["of"]): Account =>
    refusal === null
      ? { ...account, reserved: saturatingAdd(account.reserved, microUsd), wanted: 0 }
      : refusal.of === of && !refusal.held
      ? { ...account, wanted: microUsd }
      : account
  return { sandbox: next(accounts.sandbox, "sandbox"), grant: next(accounts.grant, "grant") }
}

/** The account after `charged` is spent and `reserved` is released. */
export const afterCharging = (account: Account, reserved: number, charged: number): Account => ({
  ...account,
  spent: saturatingAdd(account.spent, charged),
  reserved: Math.max(0, account.reserved - reserved)
})
