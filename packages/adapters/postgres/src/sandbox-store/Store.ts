/** Dependencies of the functions of this store. */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { Ids } from "@slipway/domain/ids/Ids"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import type { Hints } from "@slipway/domain/store/Hints"
import type { Effect } from "effect"
import type { makeOpened } from "../partner-store/tell.ts"
import type { Clients } from "../sql/Clients.ts"
import type { RowCache } from "./rows/RowCache.ts"

export interface Store extends Clients {
  readonly audit: AuditLog["Service"]
  readonly hints: Hints["Service"]
  readonly ids: Ids["Service"]
  readonly limits: Limits
  /** Active sandboxes that a grant may have; `null`: no limit. */
  readonly maxActive: number | null
  readonly known: RowCache
  /** Tells partners of a pull request, in the transaction of the caller. */
  readonly tellOpened: Effect.Success<typeof makeOpened>
}
