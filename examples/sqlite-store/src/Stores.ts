/** All stores of sandboxes over one file. */
import { Layer } from "effect"
import type { DatabaseSync } from "node:sqlite"
import * as AuditLogSqlite from "./AuditLogSqlite.ts"
import { Database } from "./Database.ts"
import * as LeasesSqlite from "./LeasesSqlite.ts"
import * as SandboxStoreSqlite from "./SandboxStoreSqlite.ts"
import * as UpkeepSqlite from "./UpkeepSqlite.ts"

export const layer = (file: string, open?: (file: string) => DatabaseSync) =>
  Layer.mergeAll(SandboxStoreSqlite.layer, LeasesSqlite.layer, UpkeepSqlite.layer, AuditLogSqlite.layer).pipe(
    Layer.provideMerge(Database.layer(file, open))
  )
