/** Dependencies of the functions of this store. */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { Ids } from "@slipway/domain/ids/Ids"
import type { SqlClient } from "effect/sql"

export interface Store {
  readonly sql: SqlClient.SqlClient
  readonly audit: AuditLog["Service"]
  readonly ids: Ids["Service"]
}
