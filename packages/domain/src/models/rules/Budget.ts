/**
 * Budgets: what the models of one sandbox, and of all sandboxes of a grant, may cost in their lifetime. Money is in micro-USD:
 * 1 USD is 1,000,000.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import { saturatingAdd } from "../../text/Counters.ts"
import type { Prices } from "../schema/ModelCatalogue.ts"
import type { TokenCounts } from "./Usage.ts"

const MILLION = 1_000_000n

/** What an answer of a model took. `cachedInput` and `cacheWrite` are parts of `input`. */
export interface Tokens {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
}

/** Of a request that was never answered. */
export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 }

/** What people are told of them. Whatever a provider claims, each is a counter, and no more was cached than there was. */
export const countsOf = ({ cachedInput, input, output }: Tokens): TokenCounts => {
  const whole = saturatingAdd(input, 0)
  return { input: whole, cachedInput: Math.min(cachedInput, whole), output: saturatingAdd(output, 0) }
}

/** Rounded up once, over all of an answer; saturates. */
export const costOf = (prices: Prices, { cacheWrite, cachedInput, input, output }: Tokens): number => {
  const total = [
    [Math.max(0, input - cachedInput - cacheWrite), prices.input],
    [cachedInput, prices.cachedInput],
    [cacheWrite, prices.cacheWrite],
    [output, prices.output]
  ].reduce((sum, [tokens = 0, price = 0]) => sum + BigInt(tokens) * BigInt(price), 0n)
  const cost = (total + MILLION - 1n) / MILLION
  return cost > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(cost)
}

/** `null`: no limit. */
export interface Limits {
  readonly sandbox: number | null
  /** Of a grant that has none of its own. */
  readonly grant: number | null
}

/** Configuration. */
export const Budgets = Context.Reference<Limits>("@slipway/domain/Budgets", {
  defaultValue: () => ({ sandbox: null, grant: null })
})

/** A grant's own limit; `null`: none, whatever is configured; `default`: what is configured. */
export type GrantBudget = number | null | "default"

/** Where the money of a sandbox or of a grant stands. */
export interface Account {
  readonly spent: number
  /** Upper bounds of the requests that are under way. */
  readonly reserved: number
  /** The reservation that was refused last, if none was granted since: what is left is too little for the next one. */
  readonly wanted: number
}

/** Of a sandbox or grant that has not asked for anything yet. */
export const noAccount: Account = { spent: 0, reserved: 0, wanted: 0 }

/** Whether nothing can be bought any more, even when no request is under way. */
export const isExhausted = ({ spent, wanted }: Account, limit: number | null): boolean =>
  limit !== null && saturatingAdd(spent, Math.max(wanted, 1)) > limit

/**
 * A budget is used up. `held`: what is left is reserved for requests under way, so the same reservation may succeed when
 * they are over; else only a higher budget helps.
 */
export class BudgetExceeded extends Data.TaggedError("BudgetExceeded")<{ readonly of: "sandbox" | "grant"; readonly held: boolean }> {
  override get message() {
    return this.of === "sandbox"
      ? "The spending budget of this sandbox is used up."
      : "The spending budget of this API access grant is used up."
  }
}

/** The two accounts every call is paid from. */
export interface Accounts {
  readonly sandbox: Account
  readonly grant: Account
}

const each = ["grant", "sandbox"] as const

/** What keeps `microUsd` from being reserved; `null`: nothing. */
export const refusalOf = (accounts: Accounts, limits: Limits, microUsd: number): BudgetExceeded | null => {
  const short = each.filter((of) => {
    const limit = limits[of]
    return limit !== null && saturatingAdd(saturatingAdd(accounts[of].spent, accounts[of].reserved), microUsd) > limit
  })
  const final = short.find((of) => saturatingAdd(accounts[of].spent, microUsd) > (limits[of] ?? 0))
  const of = final ?? short[0]
  return of === undefined ? null : new BudgetExceeded({ of, held: final === undefined })
}

/** The accounts after an attempt to reserve `microUsd` that ended with `refusal`. */
export const afterReserving = (accounts: Accounts, refusal: BudgetExceeded | null, microUsd: number): Accounts => {
  const next = (account: Account, of: BudgetExceeded["of"]): Account =>
    refusal === null
      ? { ...account, reserved: saturatingAdd(account.reserved, microUsd), wanted: 0 }
      : refusal.of === of && !refusal.held
      ? { ...account, wanted: microUsd }
      : account
  return { sandbox: next(accounts.sandbox, "sandbox"), grant: next(accounts.grant, "grant") }
}

/** The account when `charged` was spent and `reserved` is given back. */
export const afterCharging = (account: Account, reserved: number, charged: number): Account => ({
  ...account,
  spent: saturatingAdd(account.spent, charged),
  reserved: Math.max(0, account.reserved - reserved)
})
