/**
 * Port: the ledger of what models cost, by sandbox and by grant, and of the credits they draw on where these are enforced
 * (`CreditPrice`). A request reserves an upper bound before it goes out and is charged what it took: however many processes
 * reserve at once, spent and reserved together stay within the budgets and the organization's credits. Checked by
 * `SpendingContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { BudgetExceeded, GrantBudget } from "../rules/Budget.ts"
import type { NoCredits } from "../rules/Credits.ts"
import type { Spent, TokenCounts } from "../rules/Usage.ts"

/** One request to a model. */
export interface ModelCall {
  /** Chosen by the caller, once per request. */
  readonly id: Uuid
  readonly sandboxId: SandboxId
  readonly grantId: string
}

/** How a grant's account stands, in micro-USD. */
export interface GrantSpending {
  readonly spent: number
  readonly reserved: number
  /** The limit that applies; `null`: none. */
  readonly budget: number | null
  /** Whether it is the grant's own. */
  readonly own: boolean
}

/** Why nothing may be spent: first, that the organization has no credits. */
export type SpendingRefused = NoCredits | BudgetExceeded

/** As errors on the wire and turns that failed by it have it. */
export const codeOf = ({ _tag }: SpendingRefused) => _tag === "NoCredits" ? "no_credits" as const : "budget_exceeded" as const

export class Spending extends Context.Service<Spending, {
  /** What a cost comes to, in micros of a credit; 0 where credits are not enforced. */
  creditMicros(microUsd: number): number
  /** Reserves `microUsd`, an upper bound of what the call may cost, of the credits and in both accounts, or nowhere. Safe to repeat. */
  reserve(call: ModelCall, microUsd: number): Effect.Effect<void, SpendingRefused | StoreUnavailable>
  /**
   * Charges a call, the organization's credits too, and gives back the rest of its reservation. Safe to repeat: the first
   * charge counts. A reservation that was released meanwhile is charged all the same, and so is a call that never had one:
   * what they take beyond the credits is paid by the next ones. `null`: the request never went out, and is not counted, nor are
   * its tokens. `tokens`: those that the charge is for; left out: none.
   */
  charge(call: ModelCall, microUsd: number | null, tokens?: TokenCounts): Effect.Effect<void, StoreUnavailable>
  /** Gives back what is reserved for the sandbox's calls: nobody works on them any more. Says what the sandbox has used so far. */
  release(sandboxId: SandboxId): Effect.Effect<Spent, StoreUnavailable>
  /** Up to `limit` sandboxes that something is reserved for, by their ids in the order of code units: beyond `after`, or from the first. */
  reservedFor(after: SandboxId | null, limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * Forgets up to `limit` calls that began before `before` and are charged or released: a repeated charge of one is charged again. Says
   * how many. What is still reserved for them is left.
   */
  prune(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /** Why there may be no new work in the sandbox, or, with `null`, no new sandbox. `null`: there may. */
  refusal(work: { readonly grantId: string; readonly sandboxId: SandboxId | null }): Effect.Effect<SpendingRefused | null, StoreUnavailable>
  setBudget(grantId: string, budget: GrantBudget): Effect.Effect<GrantSpending, StoreUnavailable>
  of(grantId: string): Effect.Effect<GrantSpending, StoreUnavailable>
}>()("@slipway/domain/Spending") {
}
