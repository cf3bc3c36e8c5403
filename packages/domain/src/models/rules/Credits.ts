/**
 * The credits of an organization that models draw on (docs/decisions/1 and 11). Amounts are in micros, millionths of a credit. Claims
 * add credits. As with budgets, a request to a model reserves its largest cost and is charged the actual one.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import { saturatingAdd } from "../../text/Counters.ts"
import { type Account, isExhausted } from "./Budget.ts"

const MICROS = 1_000_000n

const saturated = (amount: bigint): number => Math.min(Number(amount), Number.MAX_SAFE_INTEGER)

/**
 * Micro-USD of model cost that one credit covers, at least 1. `null`: credits are not enforced and nothing is charged. A setting, equal
 * in every process.
 */
export const CreditPrice = Context.Reference<number | null>("@slipway/domain/CreditPrice", { defaultValue: () => null })

/** Converts a cost to micros of a credit, rounded up once per request. Saturates. 0 where credits are not enforced. */
export const creditMicrosOf = (microUsd: number, price: number | null): number =>
  price === null ? 0 : saturated((BigInt(microUsd) * MICROS + BigInt(price) - 1n) / BigInt(price))

/** Converts whole credits to micros. Saturates above nine billion credits, which is then a practically unlimited amount. */
export const microsOf = (credits: number): number => saturated(BigInt(credits) * MICROS)

/** The whole credits that are left of the claimed `credits`. 0 when running requests took more than there was. */
export const balanceOf = (credits: number, chargedMicros: number): number =>
  Math.max(0, Number((BigInt(credits) * MICROS - BigInt(chargedMicros)) / MICROS))

/**
 * The organization has no credits left. `held`: running requests have reserved the rest, so the same reservation may succeed when they
 * end. Otherwise only more credits help.
 */
export class NoCredits extends Data.TaggedError("NoCredits")<{ readonly held: boolean }> {
  override get message() {
    return "The organization has no credits left."
  }
}

/** Why `micros` cannot be reserved of `credits`; `null`: they can. */
export const creditRefusal = ({ reserved, spent }: Account, credits: number, micros: number): NoCredits | null => {
  const limit = microsOf(credits)
  return saturatingAdd(saturatingAdd(spent, reserved), micros) <= limit
    ? null
    : new NoCredits({ held: saturatingAdd(spent, micros) <= limit })
}

/** The account after an attempt to reserve `micros`. `refusal`: the result of the attempt. */
export const afterReservingCredits = (account: Account, refusal: NoCredits | null, micros: number): Account =>
  refusal === null
    ? { ...account, reserved: saturatingAdd(account.reserved, micros), wanted: 0 }
    : refusal.held
    ? account
    : { ...account, wanted: micros }

/** Why new work is refused; `null`: allowed. */
export const outOfCredits = (account: Account, credits: number): NoCredits | null =>
  isExhausted(account, microsOf(credits)) ? new NoCredits({ held: false }) : null
