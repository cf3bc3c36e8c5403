/**
 * What models draw on an organization's credits (docs/decisions/1 and 11). Amounts are in micros, millionths of a credit.
 * Claims bring credits; a request to a model reserves the most it can cost and is charged what it took, as with budgets.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import { saturatingAdd } from "../../text/Counters.ts"
import { type Account, isExhausted } from "./Budget.ts"

const MICROS = 1_000_000n

const saturated = (amount: bigint): number => amount > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(amount)

/**
 * Configuration: micro-USD of what models cost that one credit covers, from 1. `null`: credits are not enforced; nothing is
 * charged and nobody runs out of them. The same in every process.
 */
export const CreditPrice = Context.Reference<number | null>("@slipway/domain/CreditPrice", { defaultValue: () => null })

/** What a cost comes to, in micros. Rounded up, once for each request; saturates. 0 where credits are not enforced. */
export const creditMicrosOf = (microUsd: number, price: number | null): number =>
  price === null ? 0 : saturated((BigInt(microUsd) * MICROS + BigInt(price) - 1n) / BigInt(price))

/** Whole credits as micros. Saturates: whoever was given more than nine billion never runs out. */
export const microsOf = (credits: number): number => saturated(BigInt(credits) * MICROS)

/** Whole credits that are left of those that claims brought; 0 when requests under way took more than there was. */
export const balanceOf = (credits: number, chargedMicros: number): number =>
  Math.max(0, Number((BigInt(credits) * MICROS - BigInt(chargedMicros)) / MICROS))

/**
 * The organization has no credits left. `held`: what is left is reserved for requests under way, so the same reservation may
 * succeed when they are over; else only more credits help.
 */
export class NoCredits extends Data.TaggedError("NoCredits")<{ readonly held: boolean }> {
  override get message() {
    return "The organization has no credits left."
  }
}

/** What keeps `micros` from being reserved of `credits`; `null`: nothing. */
export const creditRefusal = ({ reserved, spent }: Account, credits: number, micros: number): NoCredits | null => {
  const limit = microsOf(credits)
  return saturatingAdd(saturatingAdd(spent, reserved), micros) <= limit
    ? null
    : new NoCredits({ held: saturatingAdd(spent, micros) <= limit })
}

/** The account after an attempt to reserve `micros` that ended with `refusal`. */
export const afterReservingCredits = (account: Account, refusal: NoCredits | null, micros: number): Account =>
  refusal === null
    ? { ...account, reserved: saturatingAdd(account.reserved, micros), wanted: 0 }
    : refusal.held
    ? account
    : { ...account, wanted: micros }

/** Why there may be no new work; `null`: there may. */
export const outOfCredits = (account: Account, credits: number): NoCredits | null =>
  isExhausted(account, microsOf(credits)) ? new NoCredits({ held: false }) : null
