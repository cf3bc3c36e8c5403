/**
 * Keeps a second ledger of model costs from the calls to `Spending`, and reports differences (docs/decisions/2.2 and 11.2). Spent and
 * reserved money stays within the budgets, each call is charged once whatever process dies, and a sandbox that is over has no reservation.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { ModelCall } from "@slipway/domain/models/ports/Spending"
import { Spending } from "@slipway/domain/models/ports/Spending"
import * as Effect from "effect/Effect"
import { atOnce } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

interface Account {
  spent: number
  reserved: number
  calls: number
  input: number
  output: number
  /** The most that a call asked to reserve and did not get. */
  wanted: number
}

/** `null`: none. Micro-USD. */
export interface BudgetsOf {
  readonly sandbox: number | null
  readonly grant: number | null
}

export class MoneyWitness {
  readonly #budgets: BudgetsOf
  readonly #trace: Trace
  readonly #accounts = new Map<string, Account>()
  /** By call; 0: charged or given back. */
  readonly #reserved = new Map<string, { readonly call: ModelCall; micros: number }>()
  readonly #charged = new Set<string>()
  /** Asked, and not answered: what of it is done cannot be seen from here. */
  #asking = 0
  /** Sandboxes and grants of whose calls one was refused. */
  readonly #refused = new Set<string>()

  /** The own budget of a sandbox; `null`: it has none. */
  readonly #own: (id: SandboxId) => number | null

  constructor(budgets: BudgetsOf, own: (id: SandboxId) => number | null, trace: Trace) {
    this.#budgets = budgets
    this.#own = own
    this.#trace = trace
  }

  #of(id: string): Account {
    const account = this.#accounts.get(id) ?? { spent: 0, reserved: 0, calls: 0, input: 0, output: 0, wanted: 0 }
    this.#accounts.set(id, account)
    return account
  }

  /** Whether a request of this sandbox or grant was refused as too expensive. */
  wasRefused(...ids: ReadonlyArray<string>): boolean {
    return ids.some((id) => this.#refused.has(id))
  }

  /** The cost that a sandbox is told. */
  told(id: SandboxId, before: number, cost: number): void {
    const { spent } = this.#of(id)
    this.#rule("what a sandbox has used grows, and is what was charged", before <= cost && cost <= spent, `${id}: ${cost} of ${spent}`)
  }

  #limits({ grantId, sandboxId }: ModelCall): ReadonlyArray<readonly [string, number | null]> {
    return [[sandboxId, this.#limitOf(sandboxId)], [grantId, this.#budgets.grant]]
  }

  /** The lower one of a sandbox's own budget and the operator's limit. */
  #limitOf(id: SandboxId): number | null {
    const [own, operator] = [this.#own(id), this.#budgets.sandbox]
    return own === null ? operator : Math.min(own, operator ?? own)
  }

  #asks<A, E>(self: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      this.#asking++
      return Effect.onExit(self, () => Effect.sync(() => void this.#asking--))
    })
  }

  /** The ledger, watched. */
  watch(spending: Spending["Service"]): Spending["Service"] {
    const { charge, refusal, release, reserve } = this.#watched(spending)
    return Spending.of({
      ...spending,
      reserve: (call, micros) => atOnce(reserve(call, micros)),
      charge: (call, micros, tokens) => atOnce(charge(call, micros, tokens)),
      release: (id) => atOnce(release(id)),
      refusal: (work) => atOnce(refusal(work))
    })
  }

  #watched(spending: Spending["Service"]): Spending["Service"] {
    return Spending.of({
      ...spending,
      reserve: (call, micros) =>
        this.#asks(spending.reserve(call, micros)).pipe(
          Effect.tap(() => Effect.sync(() => this.#reserves(call, micros))),
          Effect.tapError((error) =>
            Effect.sync(() => {
              if (error._tag !== "BudgetExceeded") return
              this.#trace.count("requests to models that a budget refused")
              for (const id of [call.sandboxId, call.grantId]) this.#refused.add(id)
              const short = this.#limits(call).filter(([id, limit]) => {
                const account = this.#of(id)
                if (limit === null || account.spent + account.reserved + micros <= limit) return false
                account.wanted = Math.max(account.wanted, micros)
                return true
              })
              this.#rule(
                "a request within the budget is not refused",
                this.#asking > 0 || short.length > 0,
                `${call.sandboxId} ${micros}`
              )
            })
          )
        ),
      charge: (call, micros, tokens) =>
        Effect.tap(
          this.#asks(spending.charge(call, micros, tokens)),
          () =>
            Effect.sync(() => {
              if (this.#charged.has(call.id)) return
              this.#charged.add(call.id)
              this.#giveBack(call.id)
              if (micros === null) return
              this.#trace.count("requests to models that were charged")
              for (const id of [call.sandboxId, call.grantId]) {
                const account = this.#of(id)
                account.spent += micros
                account.calls += 1
                account.input += tokens?.input ?? 0
                account.output += tokens?.output ?? 0
              }
            })
        ),
      release: (id) =>
        Effect.suspend(() => {
          const before = this.#asking
          return Effect.tap(this.#asks(spending.release(id)), ({ tokens, usage }) =>
            Effect.sync(() => {
              const open = Array.from(this.#reserved.values()).filter(({ call, micros }) => call.sandboxId === id && micros > 0)
              if (open.length > 0) this.#trace.count("reservations of those who died given back")
              for (const { call } of open) this.#giveBack(call.id)
              if (before > 0 || this.#asking > 0) return
              const account = this.#of(id)
              this.#rule(
                "a sandbox has used what its requests were charged, each once",
                usage.costMicroUsd === account.spent && usage.llmRequestCount === account.calls && tokens.input === account.input &&
                  tokens.output === account.output,
                `${id}: ${usage.costMicroUsd} in ${usage.llmRequestCount} requests, not ${account.spent} in ${account.calls}`
              )
            }))
        }),
      refusal: (work) =>
        Effect.suspend(() => {
          const isSpent = this.#asking === 0 && this.#budgetOf(work).some(([id, limit]) => limit !== null && this.#of(id).spent >= limit)
          return Effect.tap(spending.refusal(work), (refusal) =>
            Effect.sync(() => {
              if (refusal === null) {
                this.#rule("who has spent a budget begins nothing more", !isSpent, JSON.stringify(work))
                return
              }
              const isShort = this.#budgetOf(work).some(([id, limit]) => {
                const { spent, wanted } = this.#of(id)
                return limit !== null && spent + Math.max(wanted, 1) > limit
              })
              this.#rule("a request within the budget is not refused", isShort || this.#asking > 0, JSON.stringify(work))
            }))
        })
    })
  }

  #budgetOf({ grantId, sandboxId }: { readonly grantId: string; readonly sandboxId: SandboxId | null }) {
    const limits: Array<readonly [string, number | null]> = [[grantId, this.#budgets.grant]]
    if (sandboxId !== null) limits.push([sandboxId, this.#limitOf(sandboxId)])
    return limits
  }

  #reserves(call: ModelCall, micros: number): void {
    if (this.#charged.has(call.id) || this.#reserved.has(call.id)) return
    this.#reserved.set(call.id, { call, micros })
    for (const [id, limit] of this.#limits(call)) {
      const account = this.#of(id)
      account.reserved += micros
      this.#rule(
        "what is spent and reserved stays within the budget",
        limit === null || account.spent + account.reserved <= limit || this.#asking > 0,
        `${id}: ${account.spent} and ${account.reserved} of ${limit}`
      )
    }
  }

  #giveBack(id: string): void {
    const reservation = this.#reserved.get(id)
    if (reservation === undefined) return
    const { call, micros } = reservation
    reservation.micros = 0
    for (const [account] of this.#limits(call)) this.#of(account).reserved -= micros
  }

  /** Whether something is reserved. */
  get holds(): boolean {
    return Array.from(this.#reserved.values()).some(({ micros }) => micros > 0)
  }

  /** Everything is over: what a grant has reserved now, and has spent, as the ledger says. */
  end(grantId: string, { reserved, spent }: { readonly reserved: number; readonly spent: number }): void {
    if (this.#asking > 0) return
    const own = this.#of(grantId)
    this.#rule("nothing is reserved for what is over", reserved === 0 && own.reserved === 0, `${grantId}: ${reserved}, or ${own.reserved}`)
    this.#rule("a grant has spent what its requests were charged, each once", spent === own.spent, `${grantId}: ${spent}, not ${own.spent}`)
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}
