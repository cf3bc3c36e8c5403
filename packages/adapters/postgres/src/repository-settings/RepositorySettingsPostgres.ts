/** `RepositorySettings` on Postgres. Each change is one transaction with its entry in the audit log. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import {
  changed,
  MAX_REPOSITORIES,
  RepositorySettings,
  type SettingsOf,
  SettingsRefused
} from "@slipway/domain/source/ports/RepositorySettings"
import { NO_SETTINGS, sameSettings } from "@slipway/domain/source/schema/RepoSettings"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import * as Batches from "../sql/Batches.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { deleteSettings, lockGrant, saveSettings, selectAsked, selectSettings } from "./statements.ts"

export const layer = Layer.effect(
  RepositorySettings,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const audit = yield* AuditLog
    // Every creation asks: those at the same time share a statement.
    const settings = Batches.make({
      client: reads,
      run: (asked: ReadonlyArray<SettingsOf>) => selectAsked(reads, asked),
      most: 32,
      underWay: 2
    })
    return RepositorySettings.of({
      of: (asked) => Effect.map(settings(asked), (found) => found ?? NO_SETTINGS),
      set: Effect.fn("RepositorySettings.set")(
        function*(of, settings, at) {
          const { grantId, repo } = of
          if ((yield* lockGrant(sql, grantId)).length === 0) return yield* new SettingsRefused({ reason: "grant" })
          const all = yield* selectSettings(sql, grantId)
          const before = all.find((row) => row.repo.toLowerCase() === repo.toLowerCase())
          if (sameSettings(before?.settings ?? NO_SETTINGS, settings)) return
          if (sameSettings(settings, NO_SETTINGS)) yield* deleteSettings(sql, of)
          else if (before === undefined && all.length >= MAX_REPOSITORIES) return yield* new SettingsRefused({ reason: "limit" })
          else yield* saveSettings(sql, of, settings, at)
          yield* audit.append([changed(of, at)])
        },
        sql.withTransaction,
        guard
      ),
      list: (grantId) => guard(selectSettings(sql, grantId))
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
