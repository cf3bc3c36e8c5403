/** `SandboxDashboard` on Postgres: reads over `sandboxes`, each one statement with a bound on the rows it looks at, and pins. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { archiving, MAX_PINS, requestedRepos, SandboxDashboard, TooManyPins } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { sandboxOf } from "../sandbox-store/rows/SandboxRow.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { archivedRows, updateArchived } from "./statements/archive.ts"
import { changesRows, countRows, pastRows, pullCountRows, queueRows, recentRows, saidRows } from "./statements/counts.ts"
import { selectDashboard } from "./statements/list.ts"
import { countOtherPins, deletePin, insertPin, lockPins, pinRows } from "./statements/pins.ts"

export const layer = Layer.effect(
  SandboxDashboard,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const [changes, queue, past, recent] = [changesRows(reads), queueRows(sql), pastRows(sql), recentRows(reads)]
    const [counts, pullCounts, said, pins] = [countRows(sql), pullCountRows(sql), saidRows(sql), pinRows(reads)]
    const archived = archivedRows(reads)
    const audit = yield* AuditLog

    return SandboxDashboard.of({
      changes: (ids) =>
        ids.length === 0
          ? Effect.succeed(new Map())
          : guard(Effect.map(changes(ids), (rows) => new Map(rows.map(({ changes, id }) => [id, changes])))),

      said: (grantId, ids, search) =>
        ids.length === 0
          ? Effect.succeed(new Map())
          : guard(Effect.map(said({ grantId, ids, search }), (rows) => new Map(rows.map(({ id, text }) => [id, text])))),

      list: Effect.fn("SandboxDashboard.list")(function*(grantId, query) {
        return (yield* selectDashboard(sql, grantId, query)).map((values) => sandboxOf(values))
      }, guard),

      counts: (grantId) => guard(Effect.map(counts(grantId), (rows) => new Map(rows.map(({ count, state }) => [state, count])))),

      pullCounts: (grantId) => guard(Effect.map(pullCounts(grantId), (rows) => new Map(rows.map(({ count, state }) => [state, count])))),

      recent: (grantId) =>
        guard(
          Effect.map(recent(grantId), (rows) =>
            rows.map(({ continued, repos, ...asked }) => ({ ...asked, repos: requestedRepos(repos, continued) })))
        ),

      queue: (grantId) =>
        guard(Effect.map(queue(grantId), (rows) => ({
          places: new Map(rows.flatMap(({ id, place }) => id === null ? [] : [[id, place] as const])),
          atWork: rows[0]?.atWork ?? 0,
          slots: rows[0]?.slots ?? 0
        }))),

      archive: Effect.fn("SandboxDashboard.archive")(
        function*(grantId, ids, isArchived, now) {
          const changed = (yield* updateArchived(sql, grantId, ids, isArchived ? now : null)).map(({ id }) => id)
          yield* audit.append(changed.map((id) => archiving(id, isArchived, now)))
          return changed
        },
        sql.withTransaction,
        guard
      ),

      archived: (grantId, ids) =>
        ids.length === 0
          ? Effect.succeed(new Set())
          : guard(Effect.map(archived({ grantId, ids }), (rows) => new Set(rows.map(({ id }) => id)))),

      pins: ({ grantId, userId }) => guard(Effect.map(pins({ grantId, userId }), (rows) => new Set(rows.map(({ id }) => id)))),

      pin: Effect.fn("SandboxDashboard.pin")(
        function*(by, id, isPinned) {
          yield* lockPins(sql, by)
          const [others] = yield* countOtherPins(sql, by, id)
          if (others === undefined) return yield* new SandboxNotFound()
          if (isPinned && others.count >= MAX_PINS) return yield* new TooManyPins()
          yield* isPinned ? insertPin(sql, by, id) : deletePin(sql, by, id)
        },
        sql.withTransaction,
        guard
      ),

      past: (grantId, since) =>
        guard(
          Effect.map(past({ grantId, since: DateTime.formatIso(since) }), (rows) =>
            rows.map(({ cachedInput, input, output, ...group }) => ({ ...group, tokens: { input, cachedInput, output } })))
        )
    })
  })
).pipe(Layer.provide(AuditLogPostgres.layer))
