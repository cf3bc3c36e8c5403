/** All stores of sandboxes over one file. */
import { Layer } from "effect"
import type { DatabaseSync } from "node:sqlite"
import * as AuditLogSqlite from "./AuditLogSqlite.ts"
import { Database } from "./Database.ts"
import * as LeasesSqlite from "./LeasesSqlite.ts"
import * as MaintenanceSqlite from "./MaintenanceSqlite.ts"
import * as SandboxStoreSqlite from "./SandboxStoreSqlite.ts"

export const layer = (file: string, open?: (file: string) => DatabaseSync) =>
  Layer.mergeAll(SandboxStoreSqlite.layer, LeasesSqlite.layer, MaintenanceSqlite.layer, AuditLogSqlite.layer).pipe(
    Layer.provideMerge(Database.layer(file, open))
  )
