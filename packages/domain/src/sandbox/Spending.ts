/**
 * Port: the ledger of what models cost, by sandbox and by grant, and of the credits they draw on where these are enforced
 * (`CreditPrice`). A request reserves an upper bound before it goes out and is charged what it took: however many processes
 * reserve at once, spent and reserved together stay within the budgets and the organization's credits. Checked by
 * `testing/SpendingContract`.
 */
import { Context, DateTime, Effect, Layer, Option } from "effect"
import type { Uuid } from "../Ids.ts"
import { afterReservingCredits, CreditPrice, creditMicrosOf, creditRefusal, type NoCredits, outOfCredits } from "../partner/Credits.ts"
import { MemoryCredits } from "../partner/PartnerStore.ts"
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
   * what they take beyond the credits is paid by the next ones. `null`: the request never went out, and is not counted.
   */
  charge(call: ModelCall, microUsd: number | null): Effect.Effect<void, StoreUnavailable>
  /** Gives back what is reserved for the sandbox's calls: nobody works on them any more. Says what the sandbox has used so far. */
  release(sandboxId: SandboxId): Effect.Effect<Usage, StoreUnavailable>
  /** Why there may be no new work in the sandbox, or, with `null`, no new sandbox. `null`: there may. */
  refusal(work: { readonly grantId: string; readonly sandboxId: SandboxId | null }): Effect.Effect<SpendingRefused | null, StoreUnavailable>
  setBudget(grantId: string, budget: GrantBudget): Effect.Effect<GrantSpending, StoreUnavailable>
  of(grantId: string): Effect.Effect<GrantSpending, StoreUnavailable>
}>()("@slipway/domain/Spending") {
  /**
   * Process-local, for tests and for embedding without a database. State dies with the layer. Credits are those of the
   * `PartnerStore` in memory beneath it; without one they are not enforced.
   */
  static readonly layerMemory = Layer.effect(
    Spending,
    Effect.gen(function*() {
      const limits = yield* Budgets
      const price = yield* CreditPrice
      const credits = price === null ? null : Option.getOrNull(yield* Effect.serviceOption(MemoryCredits))
      const organizations = new Map<string, Account>()
      const grants = new Map<string, Account>()
      const budgets = new Map<string, number | null>()
      const sandboxes = new Map<
        SandboxId,
        { readonly account: Account; readonly grantId: string; readonly calls: number; readonly micros: number }
      >()
      const calls = new Map<
        Uuid,
        { readonly call: ModelCall; readonly reserved: number; readonly micros: number; readonly state: "open" | "released" | "charged" }
      >()

      const limitsOf = (grantId: string) => ({
        sandbox: limits.sandbox,
        grant: budgets.has(grantId) ? budgets.get(grantId) ?? null : limits.grant
      })
      const accountsOf = ({ grantId, sandboxId }: { readonly grantId: string; readonly sandboxId: SandboxId | null }) => ({
        sandbox: sandboxId === null ? noAccount : sandboxes.get(sandboxId)?.account ?? noAccount,
        grant: grants.get(grantId) ?? noAccount
      })
      const save = ({ grantId, sandboxId }: ModelCall, { grant, sandbox }: ReturnType<typeof accountsOf>, more = 0, micros = 0) => {
        grants.set(grantId, grant)
        const before = sandboxes.get(sandboxId)
        sandboxes.set(sandboxId, {
          account: sandbox,
          grantId,
          calls: saturatingAdd(before?.calls ?? 0, more),
          micros: saturatingAdd(before?.micros ?? 0, micros)
        })
      }
      const creditMicros = (microUsd: number) => creditMicrosOf(microUsd, credits === null ? null : price)
      const organizationOf = (grantId: string) => credits === null ? Effect.succeed("") : credits.organization(grantId)
      /** The account of an organization and its credits; `null`: they are not enforced. */
      const purseOf = (id: string) => credits === null ? null : { account: organizations.get(id) ?? noAccount, credits: credits.of(id) }
      const standing = (grantId: string): GrantSpending => {
        const { reserved, spent } = grants.get(grantId) ?? noAccount
        return { spent, reserved, budget: limitsOf(grantId).grant, own: budgets.has(grantId) }
      }
      const giveBack = (call: ModelCall, reserved: number, charged: number, more: number, micros: number) => {
        const { grant, sandbox } = accountsOf(call)
        save(call, { grant: afterCharging(grant, reserved, charged), sandbox: afterCharging(sandbox, reserved, charged) }, more, micros)
      }

      return Spending.of({
        creditMicros,
        // From the last effect on nothing else runs between what is read and what is written.
        reserve: Effect.fnUntraced(function*(call, microUsd) {
          const organizationId = yield* organizationOf(call.grantId)
          if (calls.has(call.id)) return
          const micros = creditMicros(microUsd)
          const purse = purseOf(organizationId)
          const short = purse === null ? null : creditRefusal(purse.account, purse.credits, micros)
          const accounts = accountsOf(call)
          const refusal = short ?? refusalOf(accounts, limitsOf(call.grantId), microUsd)
          if (purse !== null && refusal === short) organizations.set(organizationId, afterReservingCredits(purse.account, short, micros))
          if (refusal?._tag !== "NoCredits") save(call, afterReserving(accounts, refusal, microUsd))
          if (refusal !== null) return yield* refusal
          calls.set(call.id, { call, reserved: microUsd, micros, state: "open" })
        }),
        charge: Effect.fnUntraced(function*(call, microUsd) {
          const organizationId = yield* organizationOf(call.grantId)
          const at = yield* DateTime.now
          const known = calls.get(call.id)
          if (known?.state === "charged") return
          const micros = creditMicros(microUsd ?? 0)
          giveBack(call, known?.reserved ?? 0, microUsd ?? 0, microUsd === null ? 0 : 1, micros)
          const purse = purseOf(organizationId)
          if (purse !== null) organizations.set(organizationId, afterCharging(purse.account, known?.micros ?? 0, micros))
          if (micros > 0) credits?.charged(organizationId, { sandboxId: call.sandboxId, micros, at })
          calls.set(call.id, { call, reserved: 0, micros: 0, state: "charged" })
        }),
        release: Effect.fnUntraced(function*(sandboxId) {
          const known = sandboxes.get(sandboxId)
          if (known === undefined) return noUsage
          const organizationId = yield* organizationOf(known.grantId)
          for (const [id, { call, micros, reserved, state }] of calls) {
            if (call.sandboxId !== sandboxId || state !== "open") continue
            giveBack(call, reserved, 0, 0, 0)
            const purse = purseOf(organizationId)
            if (purse !== null) organizations.set(organizationId, afterCharging(purse.account, micros, 0))
            calls.set(id, { call, reserved: 0, micros: 0, state: "released" })
          }
          const { account, calls: count, micros } = sandboxes.get(sandboxId) ?? known
          return { llmRequestCount: count, costMicroUsd: account.spent, creditsChargedMicros: micros }
        }),
        refusal: Effect.fnUntraced(function*(work) {
          const purse = purseOf(yield* organizationOf(work.grantId))
          const short = purse === null ? null : outOfCredits(purse.account, purse.credits)
          if (short !== null) return short
          const accounts = accountsOf(work)
          const applied = limitsOf(work.grantId)
          const of = isExhausted(accounts.grant, applied.grant) ?
            "grant"
            : work.sandboxId !== null && isExhausted(accounts.sandbox, applied.sandbox) ?
            "sandbox"
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
