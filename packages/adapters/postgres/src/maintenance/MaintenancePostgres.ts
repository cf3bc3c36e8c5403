/** `Maintenance` on Postgres: over all rows of `sandboxes`, by their partial indexes. */
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { deleteSlice, selectDeleting } from "../sandbox-store/statements/deletion.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { type CensusRow, censusRows, theTime } from "./statements/census.ts"
import { dueRows } from "./statements/due.ts"
import { headRows } from "./statements/heads.ts"
import { selectLive, selectNeeded, selectOfRevokedGrants } from "./statements/ids.ts"
import { purgeEvents, purgeKeys } from "./statements/purge.ts"

/** The census of the rows. */
const censusOf = (rows: ReadonlyArray<typeof CensusRow.Type>) => {
  const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
  for (const { count, status } of rows) live[status] += count
  const sum = (of: (row: typeof CensusRow.Type) => number) => rows.reduce((total, row) => total + of(row), 0)
  return {
    live,
    leased: sum(({ leased }) => leased),
    resting: sum(({ count, isResting, leased }) => isResting ? count - leased : 0),
    bootsWaiting: sum(({ count, leased, status }) => status === "queued" ? count - leased : 0),
    oldestQueuedAt: rows.find(({ status }) => status === "queued")?.oldest ?? null,
    pendingApprovals: sum(({ approvals }) => approvals),
    awaitingApproval: sum(({ awaiting }) => awaiting)
  }
}

export const layer = Layer.effect(
  Maintenance,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const now = theTime(reads)
    const due = dueRows(sql, yield* Policy)
    const census = censusRows(sql)
    const heads = headRows(reads)

    return Maintenance.of({
      now: guard(now(undefined)).pipe(Effect.map(({ now }) => now), Effect.catchTag("NoSuchElementError", Effect.die)),

      due: (limit, after = null) =>
        guard(due({ limit, at: after?.at ?? null, id: after?.id ?? null })).pipe(
          Effect.map((rows) => {
            const page = rows.flatMap(({ at, id }) => id === null || at === null ? [] : [{ at, id }])
            return { now: rows[0].now, ids: page.map(({ id }) => id), last: page.at(-1) ?? null }
          }),
          Effect.catchTag("NoSuchElementError", Effect.die)
        ),

      ofRevokedGrants: (limit) => guard(Effect.map(selectOfRevokedGrants(sql, limit), (rows) => rows.map(({ id }) => id))),

      purgeEvents: (endedBefore, limit, own) =>
        guard(Effect.gen(function*() {
          const deleting = yield* selectDeleting(sql, limit)
          for (const { id } of deleting) yield* deleteSlice(sql, id)
          const rows = yield* purgeEvents(sql, endedBefore, limit, own)
          const sandboxes = rows.filter(({ done }) => done).length
          return { sandboxes, more: deleting.length > 0 || rows.length === limit || sandboxes < rows.length }
        })),

      purgeKeys: (limit) => guard(Effect.map(purgeKeys(sql, limit), (rows) => rows.length)),

      left: (machine, ids) =>
        guard(Effect.map(selectLive(sql, ids), (rows) => {
          const live = new Map(rows.map((row) => [row.id, [row.machine ?? machine, row.from]]))
          return {
            over: ids.filter((id) => !live.has(id)),
            moved: ids.filter((id) => live.get(id)?.includes(machine) === false)
          }
        })),

      unneeded: (ids) =>
        guard(Effect.map(selectNeeded(sql, ids), (rows) => {
          const needed = new Set<string>(rows.map(({ id }) => id))
          return ids.filter((id) => !needed.has(id))
        })),

      heads: (after, limit) => guard(heads({ after: after ?? "", limit })),

      census: guard(Effect.map(census(undefined), censusOf))
    })
  })
)
