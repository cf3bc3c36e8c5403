/**
 * Port: the ledger of model costs by sandbox and grant, and of credits where they are enforced (`CreditPrice`). A request reserves an
 * upper bound before it is sent, and is charged the actual cost. Spent and reserved amounts together stay within the budgets and the
 * organization's credits, however many processes reserve at once. Checked by `SpendingContract`.
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
  /** Chosen by the caller, unique per request. */
  readonly id: Uuid
  readonly sandboxId: SandboxId
  readonly grantId: string
  /** The sandbox's own budget, in micro-USD; absent or `null`: it has none. It limits no more than the operator does. */
  readonly budget?: number | null
}

/** The account of a grant, in micro-USD. */
export interface GrantSpending {
  readonly spent: number
  readonly reserved: number
  /** The limit in force; `null`: no limit. */
  readonly budget: number | null
  /** Whether the limit is the grant's own. */
  readonly own: boolean
}

/** Why nothing may be spent. Missing credits are reported first. */
export type SpendingRefused = NoCredits | BudgetExceeded

/** The error code on the wire and in failed turns. */
export const codeOf = ({ _tag }: SpendingRefused) => _tag === "NoCredits" ? "no_credits" as const : "budget_exceeded" as const

/** Checked by `SpendingContract`. */
export class Spending extends Context.Service<Spending, {
  /** The operator's limit of one sandbox, in micro-USD; `null`: no limit. */
  readonly sandboxLimit: number | null
  /** Converts a cost to micros of a credit; 0 where credits are not enforced. */
  creditMicros(microUsd: number): number
  /**
   * Reserves `microUsd`, an upper bound of the call's cost, in both accounts and of the credits, or nowhere. Safe to repeat.
   * The account keeps the own budget that its last attempt to reserve named.
   */
  reserve(call: ModelCall, microUsd: number): Effect.Effect<void, SpendingRefused | StoreUnavailable>
  /**
   * Charges a call and the organization's credits, and releases the rest of its reservation. Safe to repeat: the first charge counts. A
   * call is charged even if its reservation was released or never made; a charge above the credits reduces those that follow. `null`:
   * the request was never sent, so neither it nor its tokens count. `tokens`: the tokens of the charge; absent: none.
   */
  charge(call: ModelCall, microUsd: number | null, tokens?: TokenCounts): Effect.Effect<void, StoreUnavailable>
  /** Releases the reservations of a sandbox that no worker runs any more, and returns its totals. */
  release(sandboxId: SandboxId): Effect.Effect<Spent, StoreUnavailable>
  /** Up to `limit` sandboxes with reservations, after the id `after` or from the first, in the order of code units. */
  reservedFor(after: SandboxId | null, limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * Deletes up to `limit` charged or released calls that began before `before`, and returns their number. A later repeated charge of a
   * deleted call would be charged again. Calls with a reservation are kept.
   */
  prune(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /**
   * Why new work in the sandbox is refused, or, if the sandbox is `null`, a new sandbox. `null`: allowed. The sandbox's own budget counts
   * from its first reservation: nothing is spent before.
   */
  refusal(work: { readonly grantId: string; readonly sandboxId: SandboxId | null }): Effect.Effect<SpendingRefused | null, StoreUnavailable>
  setBudget(grantId: string, budget: GrantBudget): Effect.Effect<GrantSpending, StoreUnavailable>
  of(grantId: string): Effect.Effect<GrantSpending, StoreUnavailable>
}>()("@slipway/domain/Spending") {
}
