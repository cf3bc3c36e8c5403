/** `Spending` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Uuid } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { type ModelCall, type GrantSpending, Spending } from "../../src/models/ports/Spending.ts"
import {
  type Account,
  afterCharging,
  afterReserving,
  BudgetExceeded,
  Budgets,
  isExhausted,
  type Limits,
  noAccount,
  refusalOf,
  withOwn
} from "../../src/models/rules/Budget.ts"
import { afterReservingCredits, CreditPrice, creditMicrosOf, creditRefusal, outOfCredits } from "../../src/models/rules/Credits.ts"
import { addTokenCounts, noTokenCounts, nothingSpent, type TokenCounts } from "../../src/models/rules/Usage.ts"
import { saturatingAdd } from "../../src/text/Counters.ts"
import { MemoryCredits } from "../partner/PartnerStoreMemory.ts"

/** The totals of a sandbox without charges. */
const nothing = { calls: 0, micros: 0, tokens: noTokenCounts }

/** A call with its reservation. */
interface KnownCall {
  readonly call: ModelCall
  readonly at: DateTime.Utc
  readonly reserved: number
  readonly micros: number
  readonly state: "open" | "released" | "charged"
}

/** The totals of a sandbox. */
interface Totals {
  readonly account: Account
  readonly grantId: string
  /** Its own; `null`: it has none. */
  readonly budget: number | null
  readonly calls: number
  readonly micros: number
  readonly tokens: TokenCounts
}

/** The accounts of one layer. `credits`: `null` if they are not enforced. */
const ledgerOf = (limits: Limits, price: number | null, credits: MemoryCredits["Service"] | null) => {
  const organizations = new Map<string, Account>()
  const grants = new Map<string, Account>()
  const budgets = new Map<string, number | null>()
  const sandboxes = new Map<SandboxId, Totals>()
  const calls = new Map<Uuid, KnownCall>()

  const limitsOf = (grantId: string, own: number | null | undefined = null) =>
    withOwn({ sandbox: limits.sandbox, grant: budgets.has(grantId) ? budgets.get(grantId) ?? null : limits.grant }, own)
  const accountsOf = ({ grantId, sandboxId }: { readonly grantId: string; readonly sandboxId: SandboxId | null }) => ({
    sandbox: sandboxId === null ? noAccount : sandboxes.get(sandboxId)?.account ?? noAccount,
    grant: grants.get(grantId) ?? noAccount
  })
  const save = (
    { budget, grantId, sandboxId }: ModelCall,
    { grant, sandbox }: ReturnType<typeof accountsOf>,
    { calls: more, micros, tokens } = nothing
  ) => {
    grants.set(grantId, grant)
    const before = sandboxes.get(sandboxId)
    sandboxes.set(sandboxId, {
      account: sandbox,
      grantId,
      budget: budget ?? before?.budget ?? null,
      calls: saturatingAdd(before?.calls ?? 0, more),
      micros: saturatingAdd(before?.micros ?? 0, micros),
      tokens: addTokenCounts(before?.tokens ?? noTokenCounts, tokens)
    })
  }
  const creditMicros = (microUsd: number) => creditMicrosOf(microUsd, credits === null ? null : price)
  const organizationOf = (grantId: string) => credits === null ? Effect.succeed("") : credits.organization(grantId)
  /** The account of an organization with its credits; `null`: credits are not enforced. */
  const purseOf = (id: string) => credits === null ? null : { account: organizations.get(id) ?? noAccount, credits: credits.of(id) }
  const standing = (grantId: string): GrantSpending => {
    const { reserved, spent } = grants.get(grantId) ?? noAccount
    return { spent, reserved, budget: limitsOf(grantId).grant, own: budgets.has(grantId) }
  }
  const giveBack = (call: ModelCall, reserved: number, charged = 0, took = nothing) => {
    const { grant, sandbox } = accountsOf(call)
    save(call, { grant: afterCharging(grant, reserved, charged), sandbox: afterCharging(sandbox, reserved, charged) }, took)
  }
  return {
    accountsOf,
    budgets,
    calls,
    creditMicros,
    credits,
    giveBack,
    limitsOf,
    organizationOf,
    organizations,
    purseOf,
    sandboxes,
    save,
    standing
  }
}

type Ledger = ReturnType<typeof ledgerOf>

/** Reservations and charges. */
const payments = (ledger: Ledger): Pick<Spending["Service"], "charge" | "refusal" | "release" | "reserve"> => {
  const { accountsOf, calls, creditMicros, credits, giveBack, limitsOf, organizationOf, organizations, purseOf, sandboxes, save } = ledger
  return {
    // After the last effect no other fiber runs between reading and writing.
    reserve: Effect.fnUntraced(function*(call, microUsd) {
      const organizationId = yield* organizationOf(call.grantId)
      const at = yield* DateTime.now
      if (calls.has(call.id)) return
      const micros = creditMicros(microUsd)
      const purse = purseOf(organizationId)
      const short = purse === null ? null : creditRefusal(purse.account, purse.credits, micros)
      const accounts = accountsOf(call)
      const refusal = short ?? refusalOf(accounts, limitsOf(call.grantId, call.budget), microUsd)
      if (purse !== null && refusal === short) organizations.set(organizationId, afterReservingCredits(purse.account, short, micros))
      if (refusal?._tag !== "NoCredits") save(call, afterReserving(accounts, refusal, microUsd))
      if (refusal !== null) return yield* refusal
      calls.set(call.id, { call, at, reserved: microUsd, micros, state: "open" })
    }),
    charge: Effect.fnUntraced(function*(call, microUsd, tokens = noTokenCounts) {
      const organizationId = yield* organizationOf(call.grantId)
      const at = yield* DateTime.now
      const known = calls.get(call.id)
      if (known?.state === "charged") return
      const micros = creditMicros(microUsd ?? 0)
      giveBack(call, known?.reserved ?? 0, microUsd ?? 0, microUsd === null ? nothing : { calls: 1, micros, tokens })
      const purse = purseOf(organizationId)
      if (purse !== null) organizations.set(organizationId, afterCharging(purse.account, known?.micros ?? 0, micros))
      if (micros > 0) credits?.charged(organizationId, { sandboxId: call.sandboxId, micros, at })
      calls.set(call.id, { call, at: known?.at ?? at, reserved: 0, micros: 0, state: "charged" })
    }),
    release: Effect.fnUntraced(function*(sandboxId) {
      const known = sandboxes.get(sandboxId)
      if (known === undefined) return nothingSpent
      const organizationId = yield* organizationOf(known.grantId)
      for (const [id, { at, call, micros, reserved, state }] of calls) {
        if (call.sandboxId !== sandboxId || state !== "open") continue
        giveBack(call, reserved)
        const purse = purseOf(organizationId)
        if (purse !== null) organizations.set(organizationId, afterCharging(purse.account, micros, 0))
        calls.set(id, { call, at, reserved: 0, micros: 0, state: "released" })
      }
      const { account, calls: count, micros, tokens } = sandboxes.get(sandboxId) ?? known
      return { usage: { llmRequestCount: count, costMicroUsd: account.spent, creditsChargedMicros: micros }, tokens }
    }),
    refusal: Effect.fnUntraced(function*(work) {
      const purse = purseOf(yield* organizationOf(work.grantId))
      const short = purse === null ? null : outOfCredits(purse.account, purse.credits)
      if (short !== null) return short
      const accounts = accountsOf(work)
      const own = work.sandboxId === null ? null : sandboxes.get(work.sandboxId)?.budget
      const applied = limitsOf(work.grantId, own)
      const of = isExhausted(accounts.grant, applied.grant) ?
        "grant"
        : work.sandboxId !== null && isExhausted(accounts.sandbox, applied.sandbox) ?
        "sandbox"
        : null
      return of === null ? null : new BudgetExceeded({ of, held: false })
    })
  }
}

/** Lists, cleaning up, and budgets. */
const bookkeeping = ({ budgets, calls, standing }: Ledger): Pick<Spending["Service"], "of" | "prune" | "reservedFor" | "setBudget"> => ({
  reservedFor: (after, limit) =>
    Effect.sync(() => {
      const open = Array.from(calls.values()).filter(({ state }) => state === "open").map(({ call }) => call.sandboxId)
      return Array.from(new Set(open)).sort().filter((id) => after === null || id > after).slice(0, limit)
    }),
  prune: (before, limit) =>
    Effect.sync(() => {
      const old = Array.from(calls).filter(([, { at, state }]) => state !== "open" && DateTime.isLessThan(at, before)).slice(0, limit)
      for (const [id] of old) calls.delete(id)
      return old.length
    }),
  setBudget: (grantId, budget) =>
    Effect.sync(() => {
      if (budget === "default") budgets.delete(grantId)
      else budgets.set(grantId, budget)
      return standing(grantId)
    }),
  of: (grantId) => Effect.sync(() => standing(grantId))
})

/**
 * Process-local, for tests and for embedding without a database. State dies with the layer. Credits are those of the `PartnerStore` in
 * memory below it; without one they are not enforced.
 */
export const layer = Layer.effect(
  Spending,
  Effect.gen(function*() {
    const limits = yield* Budgets
    const price = yield* CreditPrice
    const credits = price === null ? null : Option.getOrNull(yield* Effect.serviceOption(MemoryCredits))
    const ledger = ledgerOf(limits, price, credits)
    return Spending.of({ sandboxLimit: limits.sandbox, creditMicros: ledger.creditMicros, ...payments(ledger), ...bookkeeping(ledger) })
  })
)
