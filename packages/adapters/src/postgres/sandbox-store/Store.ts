/** What the functions of this store share. */
import type { AuditLog } from "@slipway/domain/access/AuditLog"
import type { Hints } from "@slipway/domain/Hints"
import type { Ids } from "@slipway/domain/Ids"
import type { Limits } from "@slipway/domain/sandbox/Policy"
import { DateTime, type Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { makeOpened } from "../partner-store/PartnerStorePostgres.ts"
import type { KnownRows } from "./KnownRows.ts"

export interface Store {
  /** Inside the transaction of the caller, if there is one. */
  readonly sql: SqlClient.SqlClient
  /** For reads that wait for nobody (`Database.Reads`). Never inside a transaction. */
  readonly reads: SqlClient.SqlClient
  readonly audit: AuditLog["Service"]
  readonly hints: Hints["Service"]
  readonly ids: Ids["Service"]
  readonly limits: Limits
  /** Active sandboxes that a grant may have; `null`: no limit. */
  readonly maxActive: number | null
  readonly known: KnownRows
  /** Tells partners of a pull request, in the transaction of the caller. */
  readonly tellOpened: Effect.Success<typeof makeOpened>
}

/** A time as a parameter of a statement. */
export const iso = (at: DateTime.Utc | null): string | null => at === null ? null : DateTime.formatIso(at)
