/**
 * Port: the ledger of what models cost, by sandbox and by grant. A request reserves an upper bound before it goes out and
 * is charged what it took: however many processes reserve at once, spent and reserved together stay within the budget.
 * Checked by `testing/SpendingContract`.
 */
import { Context, Effect, Layer } from "effect"
import type { Uuid } from "../Ids.ts"
import { saturatingAdd } from "../Text.ts"
import {
  type Account,
  afterCharging,
  afterReserving,
  BudgetExceeded,
  Budgets,
  type GrantBudget,
  isExhausted,
  noAccount,
  refusalOf
} from "./Budget.ts"
import type { SandboxId } from "./SandboxId.ts"
import type { StoreUnavailable } from "./SandboxStore.ts"
import { noUsage, type Usage } from "./Usage.ts"

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

export class Spending extends Context.Service<Spending, {
  /** Reserves `microUsd`, an upper bound of what the call may cost, in both accounts or in none. Safe to repeat. */
  reserve(call: ModelCall, microUsd: number): Effect.Effect<void, BudgetExceeded | StoreUnavailable>
  /**
   * Charges a call and gives back the rest of its reservation. Safe to repeat: the first charge counts. A reservation
   * that was released meanwhile is charged all the same, and so is a call that never had one. `null`: the request never
   * went out, and is not counted.
   */
  charge(call: ModelCall, microUsd: number | null): Effect.Effect<void, StoreUnavailable>
  /** Gives back what is reserved for the sandbox's calls: nobody works on them any more. Says what the sandbox has used so far. */
  release(sandboxId: SandboxId): Effect.Effect<Usage, StoreUnavailable>
  /** Why there may be no new work in the sandbox, or, with `null`, no new sandbox. `null`: there may. */
  refusal(work: { readonly grantId: string; readonly sandboxId: SandboxId | null }): Effect.Effect<BudgetExceeded | null, StoreUnavailable>
  setBudget(grantId: string, budget: GrantBudget): Effect.Effect<GrantSpending, StoreUnavailable>
  of(grantId: string): Effect.Effect<GrantSpending, StoreUnavailable>
}>()("@slipway/domain/Spending") {
  /** Process-local, for tests and for embedding without a database. State dies with the layer. */
  static readonly layerMemory = Layer.effect(
    Spending,
    Effect.gen(function*() {
      const limits = yield* Budgets
      const grants = new Map<string, Account>()
      const budgets = new Map<string, number | null>()
      const sandboxes = new Map<SandboxId, { readonly account: Account; readonly grantId: string; readonly calls: number }>()
      const calls = new Map<Uuid, { readonly call: ModelCall; readonly reserved: number; readonly state: "open" | "released" | "charged" }>()

      const limitsOf = (grantId: string) => ({ sandbox: limits.sandbox, grant: budgets.has(grantId) ? budgets.get(grantId) ?? null : limits.grant })
      const accountsOf = ({ grantId, sandboxId }: { readonly grantId: string; readonly sandboxId: SandboxId | null }) => ({
        sandbox: sandboxId === null ? noAccount : sandboxes.get(sandboxId)?.account ?? noAccount,
        grant: grants.get(grantId) ?? noAccount
      })
      const save = ({ grantId, sandboxId }: ModelCall, { grant, sandbox }: ReturnType<typeof accountsOf>, more = 0) => {
        grants.set(grantId, grant)
        sandboxes.set(sandboxId, { account: sandbox, grantId, calls: saturatingAdd(sandboxes.get(sandboxId)?.calls ?? 0, more) })
      }
      const standing = (grantId: string): GrantSpending => {
        const { reserved, spent } = grants.get(grantId) ?? noAccount
        return { spent, reserved, budget: limitsOf(grantId).grant, own: budgets.has(grantId) }
      }
      const giveBack = (call: ModelCall, reserved: number, charged: number, more: number) => {
        const { grant, sandbox } = accountsOf(call)
        save(call, { grant: afterCharging(grant, reserved, charged), sandbox: afterCharging(sandbox, reserved, charged) }, more)
      }

      return Spending.of({
        reserve: (call, microUsd) =>
          Effect.suspend(() => {
            if (calls.has(call.id)) return Effect.void
            const accounts = accountsOf(call)
            const refusal = refusalOf(accounts, limitsOf(call.grantId), microUsd)
            save(call, afterReserving(accounts, refusal, microUsd))
            if (refusal !== null) return Effect.fail(refusal)
            calls.set(call.id, { call, reserved: microUsd, state: "open" })
            return Effect.void
          }),
        charge: (call, microUsd) =>
          Effect.sync(() => {
            const known = calls.get(call.id)
            if (known?.state === "charged") return
            giveBack(call, known?.state === "open" ? known.reserved : 0, microUsd ?? 0, microUsd === null ? 0 : 1)
            calls.set(call.id, { call, reserved: 0, state: "charged" })
          }),
        release: (sandboxId) =>
          Effect.sync(() => {
            for (const [id, { call, reserved, state }] of calls) {
              if (call.sandboxId !== sandboxId || state !== "open") continue
              giveBack(call, reserved, 0, 0)
              calls.set(id, { call, reserved: 0, state: "released" })
            }
            const found = sandboxes.get(sandboxId)
            return found === undefined ? noUsage : { ...noUsage, llmRequestCount: found.calls, costMicroUsd: found.account.spent }
          }),
        refusal: (work) =>
          Effect.sync(() => {
            const accounts = accountsOf(work)
            const applied = limitsOf(work.grantId)
            const of = isExhausted(accounts.grant, applied.grant) ? "grant"
              : work.sandboxId !== null && isExhausted(accounts.sandbox, applied.sandbox) ? "sandbox"
              : null
            return of === null ? null : new BudgetExceeded({ of, held: false })
          }),
        setBudget: (grantId, budget) =>
          Effect.sync(() => {
            if (budget === "default") budgets.delete(grantId)
            else budgets.set(grantId, budget)
            return standing(grantId)
          }),
        of: (grantId) => Effect.sync(() => standing(grantId))
      })
    })
  )
}
