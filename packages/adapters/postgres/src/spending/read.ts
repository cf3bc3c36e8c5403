/** Reads of accounts, and budgets of grants. */
import { BudgetExceeded, isExhausted } from "@slipway/domain/models/rules/Budget"
import { outOfCredits } from "@slipway/domain/models/rules/Credits"
import { Effect } from "effect"
import * as Batches from "../sql/Batches.ts"
import { guard } from "../sql/SqlFailure.ts"
import { decodeGrant, decodePurse, limitsOf, noGrant, spendingOf } from "./rows/SpendingRows.ts"
import { type AskedGrant, saveBudget, selectAccounts, selectGrant } from "./statements/accounts.ts"
import { selectPurse } from "./statements/purse.ts"
import type { Store } from "./Store.ts"

/** Grants that one statement looks at, and statements at once. */
const AT_ONCE = { most: 32, underWay: 2 }

/** `Spending.refusal`. Call once per store: questions at the same time share a statement. */
export const makeRefusal = ({ configured, price, reads }: Store) => {
  const accounts = Batches.make({
    client: reads,
    run: (asked: ReadonlyArray<AskedGrant>) => selectAccounts(reads, asked),
    ...AT_ONCE
  })
  return Effect.fn("Spending.refusal")(function*({ grantId, sandboxId }: AskedGrant) {
    if (price !== null) {
      const [row] = yield* selectPurse(reads, grantId)
      const purse = row === undefined ? null : decodePurse(row)
      const short = purse === null ? null : outOfCredits(purse, purse.credits)
      if (short !== null) return short
    }
    const row = yield* accounts({ grantId, sandboxId })
    const grant = row === null || row["own"] === null ? noGrant : decodeGrant(row)
    const limits = limitsOf(grant, configured, row?.["sandboxBudget"] == null ? null : Number(row["sandboxBudget"]))
    if (isExhausted(grant, limits.grant)) return new BudgetExceeded({ of: "grant", held: false })
    if (sandboxId === null) return null
    const sandbox = { spent: Number(row?.["sandboxSpent"] ?? 0), reserved: 0, wanted: Number(row?.["sandboxWanted"] ?? 0) }
    return isExhausted(sandbox, limits.sandbox) ? new BudgetExceeded({ of: "sandbox", held: false }) : null
  }, guard)
}

export const setBudget = Effect.fn("Spending.setBudget")(
  function*({ configured, sql }: Store, grantId: string, budget: number | "default" | null) {
    const own = budget !== "default"
    const [row] = yield* saveBudget(sql, grantId, own, own ? budget : null)
    return spendingOf(decodeGrant(row), configured)
  },
  guard
)

export const of = Effect.fn("Spending.of")(function*({ configured, reads }: Store, grantId: string) {
  const [row] = yield* selectGrant(reads, grantId)
  return spendingOf(row === undefined ? noGrant : decodeGrant(row), configured)
}, guard)
