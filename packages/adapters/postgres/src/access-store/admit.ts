/** Admission of requests. Requests at the same time share a statement. */
import type { RateLimits } from "@slipway/domain/access/ports/AccessStore"
import { Acting, type AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { rightsOf } from "@slipway/domain/access/rules/Minting"
import { DateTime, Effect } from "effect"
import * as Batches from "../sql/Batches.ts"
import type { Clients } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { decodeAdmission } from "./rows/AccessRows.ts"
import { slotOf } from "./rows/RateSlotRow.ts"
import { admissions, type Asked, markFirstUse } from "./statements/admissions.ts"

/** Dependencies of the functions of this store. */
export interface Store extends Clients {
  readonly audit: AuditLog["Service"]
}

/**
 * Requests that one statement admits, and statements at once: windows of busy keys take the database a millisecond each, for which the
 * others of a batch wait.
 */
const BATCH = { most: 16, underWay: 3 }

/**
 * A transaction of its own: an insert in the statement that admits would cost every request a tenth more even when nothing is inserted
 * (measured 2026-11-22).
 */
const firstUse = ({ audit, sql }: Store, { grantId, keyId }: { readonly keyId: string; readonly grantId: string }) =>
  sql.withTransaction(Effect.gen(function*() {
    const [used] = yield* markFirstUse(sql, keyId)
    if (used === undefined) return
    yield* audit.append([{ action: "key.first_used", at: DateTime.makeUnsafe(used.at), subjects: { keyId, grantId } }]).pipe(
      Effect.provideService(Acting, { _tag: "Key", keyId })
    )
  }))

/** `AccessStore.admit`. Call once per store. */
export const makeAdmit = (store: Store) => {
  const { reads } = store
  const admit = Batches.make({
    client: reads,
    run: (asked: ReadonlyArray<Asked>) => Effect.map(admissions(reads, asked), (rows) => Batches.placed(asked, rows, (row) => row["n"])),
    ...BATCH
  })
  return Effect.fnUntraced(function*(digest: string, limits: RateLimits) {
    const row = yield* admit({ digest, limits })
    if (row === null) return null
    const { first, keyId, memberActive, organizationSuspended, role, scopes, ...rest } = decodeAdmission(row)
    const { grantId, organizationId, test, userId } = rest
    if (first) yield* guard(firstUse(store, { keyId, grantId }))
    return {
      principal: { credential: { _tag: "Key" as const, keyId }, grantId, organizationId, userId, scopes: rightsOf(role, scopes), test },
      memberActive,
      organizationSuspended,
      rate: slotOf(rest)
    }
  })
}
