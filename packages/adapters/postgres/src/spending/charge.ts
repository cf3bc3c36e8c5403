/** Reserving, charging and releasing money. Each transaction locks the organization, then the grant, then the sandbox. */
import type { ModelCall } from "@slipway/domain/models/ports/Spending"
import { type Account, afterCharging, afterReserving, refusalOf } from "@slipway/domain/models/rules/Budget"
import { afterReservingCredits, creditMicrosOf, creditRefusal } from "@slipway/domain/models/rules/Credits"
import { noTokenCounts, nothingSpent, type TokenCounts } from "@slipway/domain/models/rules/Usage"
import { saturatingAdd } from "@slipway/domain/text/Counters"
import { Effect } from "effect"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { decodeGrant, decodeSandbox, decodeTokens, limitsOf, type PurseRow } from "./rows/SpendingRows.ts"
import { lockAccounts, lockGrant, saveAccounts, selectSandbox } from "./statements/accounts.ts"
import { clearReserved, insertOpen, releaseOpen, saveCharged, sumReserved } from "./statements/calls.ts"
import { insertCharge, lockPurse, savePurse } from "./statements/purse.ts"
import type { Store } from "./Store.ts"

/** The purse of the grant's organization, locked; `null`: credits are not enforced. */
const lockedPurse = ({ price, sql }: Store, grantId: string) => price === null ? Effect.succeed(null) : lockPurse(sql, grantId)

const reserveWithin = Effect.fnUntraced(function*(store: Store, call: ModelCall, microUsd: number, micros: number) {
  const { configured, sql } = store
  const purse = yield* lockedPurse(store, call.grantId)
  const locked = yield* lockAccounts(sql, call)
  if (locked.call !== null) return null
  const short = purse === null ? null : creditRefusal(purse, purse.credits, micros)
  const refusal = short ?? refusalOf(locked, limitsOf(locked.grant, configured, call.budget), microUsd)
  if (purse !== null && refusal === short) yield* savePurse(sql, purse, afterReservingCredits(purse, short, micros))
  if (refusal?._tag !== "NoCredits") {
    yield* saveAccounts(sql, call, afterReserving(locked, refusal, microUsd), locked.sandbox.calls, noTokenCounts)
  }
  if (refusal === null) yield* insertOpen(sql, call, microUsd, micros)
  return refusal
})

/** A refusal is recorded too, so it commits before it fails. */
export const reserve = Effect.fn("Spending.reserve")(function*(store: Store, call: ModelCall, microUsd: number) {
  const micros = creditMicrosOf(microUsd, store.price)
  const refusal = yield* guard(store.sql.withTransaction(reserveWithin(store, call, microUsd, micros)))
  if (refusal !== null) return yield* refusal
})

/** Takes the cost of a call from the organization's credits, and gives back what was reserved for it. */
const draw = Effect.fnUntraced(
  function*({ sql }: Store, purse: PurseRow, call: ModelCall, reserved: number, before: number, micros: number) {
    if (reserved > 0 || micros > 0) yield* savePurse(sql, purse, afterCharging(purse, reserved, micros))
    if (micros === 0) return
    yield* insertCharge(sql, purse.organizationId, call, { ofCall: micros, ofSandbox: saturatingAdd(before, micros) })
  }
)

/** `microUsd`: `null` for a call that was not made. */
export const charge = Effect.fn("Spending.charge")(
  function*(store: Store, call: ModelCall, microUsd: number | null, tokens: TokenCounts) {
    const { price, sql } = store
    const purse = yield* lockedPurse(store, call.grantId)
    const { call: known, grant, sandbox } = yield* lockAccounts(sql, call)
    if (known?.state === "charged") return
    const reserved = known?.state === "open" ? known.reserved : 0
    const after = (account: Account) => afterCharging(account, reserved, microUsd ?? 0)
    const accounts = { grant: after(grant), sandbox: after(sandbox) }
    if (microUsd === null) yield* saveAccounts(sql, call, accounts, sandbox.calls, noTokenCounts)
    else yield* saveAccounts(sql, call, accounts, saturatingAdd(sandbox.calls, 1), tokens)
    if (purse !== null) yield* draw(store, purse, call, known?.micros ?? 0, sandbox.micros, creditMicrosOf(microUsd ?? 0, price))
    // Credits that are reserved but not enforced here are given back by the next release.
    yield* saveCharged(sql, call, purse === null ? known?.micros ?? 0 : 0)
  },
  inTransaction
)

/** Gives back all that is reserved for a sandbox, and tells what it has spent. */
export const release = Effect.fn("Spending.release")(function*(store: Store, sandboxId: ModelCall["sandboxId"]) {
  const { sql } = store
  const [row] = yield* selectSandbox(sql, sandboxId, false)
  if (row === undefined) return nothingSpent
  const { grantId } = decodeSandbox(row)
  const purse = yield* lockedPurse(store, grantId)
  const [grant] = yield* lockGrant(sql, grantId)
  const [locked] = yield* selectSandbox(sql, sandboxId, true)
  const sandbox = decodeSandbox(locked)
  if (sandbox.reserved > 0) {
    const after = (account: Account) => afterCharging(account, sandbox.reserved, 0)
    const accounts = { grant: after(decodeGrant(grant)), sandbox: after(sandbox) }
    yield* saveAccounts(sql, { grantId, sandboxId }, accounts, sandbox.calls, noTokenCounts)
  }
  if (purse !== null) {
    const [held] = yield* sumReserved(sql, sandboxId)
    const micros = Number(held?.micros ?? 0)
    if (micros > 0) {
      yield* savePurse(sql, purse, afterCharging(purse, micros, 0))
      yield* clearReserved(sql, sandboxId)
    }
  }
  yield* releaseOpen(sql, sandboxId)
  return {
    usage: { llmRequestCount: sandbox.calls, costMicroUsd: sandbox.spent, creditsChargedMicros: sandbox.micros },
    tokens: decodeTokens(locked)
  }
}, inTransaction)
