/** `Upkeep` on Postgres: over all rows of `sandboxes`, by their partial indexes. */
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "./Database.ts"
import { Instant } from "./Instant.ts"
import { Int8 } from "./Int8.ts"
import { guard } from "./SqlFailure.ts"
import { textArray } from "./TextArray.ts"

const CensusRow = Schema.Struct({
  status: Schema.Literals(["queued", "creating", "running", "terminating"]),
  count: Int8,
  leased: Int8,
  oldest: Schema.NullOr(Instant),
  approvals: Int8,
  awaiting: Int8,
  isResting: Schema.Boolean
})

export const layer = Layer.effect(
  Upkeep,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql

    // Of those at rest no row is looked at but of the few that a worker holds: their index alone would do only once they are
    // vacuumed, and counts 50,000 in 70 ms before; the table of those at rest does in 8 (2026-11-23).
    const censusRows = SqlSchema.findAll({
      Request: Schema.Void,
      Result: CensusRow,
      execute: () =>
        sql`
        SELECT status, count(*) AS count, count(*) FILTER (WHERE lease_until > now()) AS leased, min(created_at) AS oldest,
          sum(jsonb_array_length(approvals))::bigint AS approvals, count(*) FILTER (WHERE approvals <> '[]') AS awaiting,
          false AS "isResting"
        FROM sandboxes WHERE work IS NOT NULL AND status IN ('queued', 'creating', 'running', 'terminating') GROUP BY status
        UNION ALL
        SELECT 'running', (SELECT count(*) FROM resting_sandboxes), (
            SELECT count(*) FROM sandboxes
            WHERE worker IS NOT NULL AND status IN ('queued', 'creating', 'running', 'terminating')
              AND status = 'running' AND work IS NULL AND lease_until > now()
          ), NULL, 0, 0, true`
    })

    const theTime = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ now: Instant }),
      execute: () => reads`SELECT clock_timestamp() AS now`
    })

    /** At least one row, for the time. */
    const dueRows = SqlSchema.findNonEmpty({
      Request: Schema.Int,
      Result: Schema.Struct({ now: Instant, id: Schema.NullOr(SandboxId) }),
      execute: (limit) =>
        sql`
        SELECT now() AS now, due.id FROM (SELECT) one LEFT JOIN (
          SELECT id, deadline_at FROM sandboxes WHERE deadline_at <= now() ORDER BY deadline_at LIMIT ${limit}
        ) due ON true ORDER BY due.deadline_at`
    })

    return Upkeep.of({
      now: guard(theTime(undefined)).pipe(Effect.map(({ now }) => now), Effect.catchTag("NoSuchElementError", Effect.die)),

      due: (limit) =>
        guard(dueRows(limit)).pipe(
          Effect.map((rows) => ({ now: rows[0].now, ids: rows.flatMap(({ id }) => id ?? []) })),
          Effect.catchTag("NoSuchElementError", Effect.die)
        ),

      // Grant by grant, so that the many of those that are good are not looked at.
      ofRevokedGrants: (limit) =>
        guard(Effect.map(
          sql<{ readonly id: SandboxId }>`
            SELECT s.id FROM grants g CROSS JOIN LATERAL (
              SELECT id FROM sandboxes WHERE grant_id = g.id AND status IN ('queued', 'creating', 'running') LIMIT ${limit}
            ) s WHERE g.revoked_at IS NOT NULL LIMIT ${limit}`,
          (rows) => rows.map(({ id }) => id)
        )),

      purgeEvents: (endedBefore, limit) =>
        guard(Effect.map(
          sql`
            WITH ended AS (
              SELECT id, last_seq FROM sandboxes
              WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)
                AND status_at <= ${DateTime.formatIso(endedBefore)}::timestamptz
              ORDER BY status_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM sandbox_events e USING ended WHERE e.sandbox_id = ended.id AND e.seq <= ended.last_seq
            ), setups AS (
              DELETE FROM sandbox_setups t USING ended WHERE t.sandbox_id = ended.id
            ), traced AS (
              DELETE FROM traces t USING ended WHERE t.sandbox_id = ended.id
            )
            UPDATE sandboxes s SET purged_seq = ended.last_seq, purged_before = ${DateTime.formatIso(endedBefore)}::timestamptz
            FROM ended WHERE s.id = ended.id RETURNING 1`,
          (rows) => rows.length
        )),

      purgeKeys: (limit) =>
        guard(Effect.map(
          sql`
            DELETE FROM idempotency_keys WHERE (grant_id, route, key) IN (
              SELECT grant_id, route, key FROM idempotency_keys
              WHERE created_at < now() - make_interval(days => ${RETENTION_DAYS})
              ORDER BY created_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) RETURNING 1`,
          (rows) => rows.length
        )),

      left: (machine, ids) =>
        guard(Effect.map(
          sql<{ readonly id: string; readonly machine: string | null; readonly from: string | null }>`
            SELECT id, machine, moved_from AS from FROM sandboxes
            WHERE id = ANY(${textArray(ids)}::text[]) AND status IN ('queued', 'creating', 'running', 'terminating')`,
          (rows) => {
            const live = new Map(rows.map((row) => [row.id, [row.machine ?? machine, row.from]]))
            return {
              over: ids.filter((id) => !live.has(id)),
              moved: ids.filter((id) => live.get(id)?.includes(machine) === false)
            }
          }
        )),

      unneeded: (ids) =>
        guard(Effect.map(
          sql<{ readonly id: string }>`
            SELECT id FROM sandboxes WHERE id = ANY(${textArray(ids)}::text[]) AND (
              status IN ('queued', 'creating', 'running', 'terminating') OR work IS NOT NULL
              OR worker IS NOT NULL AND lease_until > now()
            )`,
          (rows) => {
            const needed = new Set<string>(rows.map(({ id }) => id))
            return ids.filter((id) => !needed.has(id))
          }
        )),

      census: guard(Effect.map(censusRows(undefined), (rows) => {
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
      }))
    })
  })
)
