/** Dependencies of the functions of this store. */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Key } from "../secret-store/SecretsKey.ts"
import type { feedHead } from "./statements/endpoints.ts"
import type { selectLine, takeLines, takeManualNotifications } from "./statements/notifications.ts"
import type { takeManual, takeOrdered } from "./statements/take.ts"

export interface Store {
  readonly sql: SqlClient.SqlClient
  readonly audit: AuditLog["Service"]
  /** Dies when the key cannot be used: the operator is told at the start. */
  readonly key: Effect.Effect<Key>
  readonly feedHead: ReturnType<typeof feedHead>
  readonly takeManual: ReturnType<typeof takeManual>
  readonly takeOrdered: ReturnType<typeof takeOrdered>
  readonly takeManualNotifications: ReturnType<typeof takeManualNotifications>
  readonly takeLines: ReturnType<typeof takeLines>
  readonly selectLine: ReturnType<typeof selectLine>
}
