/** Dependencies of the functions of this store. */
import type { Ids } from "@slipway/domain/ids/Ids"
import type { SqlClient } from "effect/sql"
import * as Claims from "./statements/claims.ts"
import * as Records from "./statements/records.ts"

export const makeStore = (sql: SqlClient.SqlClient, ids: Ids["Service"]) => ({
  sql,
  ids,
  projectRows: Records.projectRows(sql),
  invoiceRows: Records.invoiceRows(sql),
  selectTime: Claims.selectTime(sql),
  lockAttribution: Claims.lockAttribution(sql)
})

export type Store = ReturnType<typeof makeStore>
