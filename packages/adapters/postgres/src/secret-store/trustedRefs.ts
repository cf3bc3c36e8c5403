/** Trusting and distrusting refs. Each change is one transaction with its entry in the audit log. */
import { refTold, TooManyTrustedRefs, TrustedRefNotFound } from "@slipway/domain/environment/ports/SecretStore"
import { MAX_TRUSTED_REFS } from "@slipway/domain/environment/rules/SetupTrust"
import { type DateTime, Effect } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import { requireGrant, type Store } from "./secrets.ts"
import { deleteRef, insertRef, selectRefs } from "./statements/trustedRefs.ts"

interface Of {
  readonly grantId: string
  readonly repo: string
}

export const trustRef = Effect.fn("SecretStore.trustRef")(
  function*(store: Store, of: Of, ref: string, at: DateTime.Utc) {
    const { audit, sql } = store
    const { grantId, repo } = of
    yield* requireGrant(store, grantId)
    const known = yield* selectRefs(sql, grantId, repo)
    const before = known.find((one) => one.ref === ref)
    if (before !== undefined) return before
    if (known.length >= MAX_TRUSTED_REFS) return yield* new TooManyTrustedRefs()
    yield* insertRef(sql, grantId, repo, ref, at)
    yield* audit.append([refTold("trusted_ref.listed", of, ref, at)])
    return { repo, ref, listedAt: at }
  },
  inTransaction
)

export const distrustRef = Effect.fn("SecretStore.distrustRef")(
  function*({ audit, sql }: Store, of: Of, ref: string, at: DateTime.Utc) {
    if ((yield* deleteRef(sql, of, ref)).length === 0) return yield* new TrustedRefNotFound()
    yield* audit.append([refTold("trusted_ref.removed", of, ref, at)])
  },
  inTransaction
)
