/** `Maintenance` on Postgres: over all rows of `sandboxes`, by their partial indexes. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { MAX_SETUP } from "@slipway/domain/sandbox/rules/TimeLimit"
import { DateTime, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../Database.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

/** Events that one statement of a purge takes, 1 s of work: a statement may run for 7 s, and 20 logs may have 512 MiB each. */
const SLICE = { events: 10_000, bytes: 16 * 1024 * 1024 }

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
  Maintenance,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const limits = yield* Policy

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

    const lasting = (limit: Duration.Duration) => sql`make_interval(secs => ${Duration.toSeconds(limit)}::double precision)`
    const until = (limit: Duration.Duration) => sql`now() - ${lasting(limit)}`

    // As `nextDeadline` of the domain says, by the limits of this process: what was stored with a row was reckoned by those of another one,
    // or of an earlier day. Each branch is one limit, and those that may find many at rest read an index (0055).
    const limitRows = sql`
      SELECT id, created_at + ${lasting(limits.lifetime)} AS at FROM sandboxes
      WHERE status IN ('queued', 'creating', 'running') AND created_at <= ${until(limits.lifetime)}
      UNION ALL
      SELECT id, created_at + ${lasting(limits.queue)} FROM sandboxes
      WHERE status = 'queued' AND created_at <= ${until(limits.queue)}
      UNION ALL
      SELECT id, status_at + ${lasting(limits.boot)} + least(${lasting(MAX_SETUP)}, make_interval(
          secs => (coalesce((setup_time ->> 'spentMs')::float8, 0) + coalesce((setup_time -> 'run' ->> 'limitMs')::float8, 0)) / 1000))
      FROM sandboxes WHERE status = 'creating' AND status_at <= ${until(limits.boot)}
      UNION ALL
      SELECT id, status_at + ${lasting(limits.release)} FROM sandboxes
      WHERE status = 'terminating' AND status_at <= ${until(limits.release)}
      UNION ALL
      SELECT id, coalesce(idle_since, status_at) + ${lasting(limits.idle)} FROM sandboxes
      WHERE status = 'running' AND work IS DISTINCT FROM 'turn' AND coalesce(idle_since, status_at) <= ${until(limits.idle)}
        AND NOT publications @@ '$[*].actionState == "publishing" || $[*].actionState == "updating"'
      UNION ALL
      SELECT id, least((turn ->> 'startedAt')::timestamptz + ${lasting(limits.turn)}, (
          SELECT min((a ->> 'expires_at')::timestamptz) FROM jsonb_array_elements(approvals) a))
      FROM sandboxes WHERE work = 'turn'`

    /** At least one row, for the time. */
    const dueRows = SqlSchema.findNonEmpty({
      Request: Schema.Struct({ limit: Schema.Int, at: Schema.NullOr(Instant), id: Schema.NullOr(SandboxId) }),
      Result: Schema.Struct({ now: Instant, id: Schema.NullOr(SandboxId), at: Schema.NullOr(Instant) }),
      execute: ({ at, id, limit }) =>
        sql`
        SELECT now() AS now, due.id, due.at FROM (SELECT) one LEFT JOIN (
          SELECT id, min(at) AS at FROM (${limitRows}) limits WHERE at <= now() GROUP BY id
          HAVING ${id === null ? sql`true` : sql`(min(at), id) > (${at}::timestamptz, ${id})`}
          ORDER BY min(at), id LIMIT ${limit}
        ) due ON true ORDER BY due.at, due.id`
    })

    return Maintenance.of({
      now: guard(theTime(undefined)).pipe(Effect.map(({ now }) => now), Effect.catchTag("NoSuchElementError", Effect.die)),

      due: (limit, after = null) =>
        guard(dueRows({ limit, at: after?.at ?? null, id: after?.id ?? null })).pipe(
          Effect.map((rows) => {
            const page = rows.flatMap(({ at, id }) => id === null || at === null ? [] : [{ at, id }])
            return { now: rows[0].now, ids: page.map(({ id }) => id), last: page.at(-1) ?? null }
          }),
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
          sql<{ readonly done: boolean }>`
            WITH ended AS (
              SELECT id, last_seq, status_at FROM sandboxes
              WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)
                AND status_at <= ${DateTime.formatIso(endedBefore)}::timestamptz
              ORDER BY status_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ), slice AS MATERIALIZED (
              SELECT sandbox_id, seq FROM (
                SELECT e.sandbox_id, e.seq, sum(e.bytes) OVER (ORDER BY ended.status_at, e.sandbox_id, e.seq) - e.bytes AS bytes_before
                FROM ended CROSS JOIN LATERAL (
                  SELECT sandbox_id, seq, octet_length(wire) AS bytes FROM sandbox_events
                  WHERE sandbox_id = ended.id AND seq <= ended.last_seq ORDER BY seq LIMIT ${SLICE.events}
                ) e
                ORDER BY ended.status_at, e.sandbox_id, e.seq LIMIT ${SLICE.events}
              ) oldest WHERE bytes_before < ${SLICE.bytes}
            ), reached AS (
              SELECT ended.id, ended.last_seq, coalesce(max(slice.seq), 0) AS seq
              FROM ended LEFT JOIN slice ON slice.sandbox_id = ended.id GROUP BY ended.id, ended.last_seq
            ), progress AS (
              SELECT id, last_seq, seq, NOT EXISTS (
                SELECT FROM sandbox_events e WHERE e.sandbox_id = reached.id AND e.seq > reached.seq AND e.seq <= reached.last_seq
              ) AS done FROM reached
            ), gone AS (
              DELETE FROM sandbox_events e USING slice WHERE e.sandbox_id = slice.sandbox_id AND e.seq = slice.seq
            ), setups AS (
              DELETE FROM sandbox_setups t USING ended WHERE t.sandbox_id = ended.id
            ), traced AS (
              DELETE FROM traces t USING ended WHERE t.sandbox_id = ended.id
            )
            UPDATE sandboxes s SET
              purged_seq = CASE WHEN p.done THEN p.last_seq ELSE greatest(s.purged_seq, p.seq) END,
              purged_before = CASE WHEN p.done THEN ${DateTime.formatIso(endedBefore)}::timestamptz ELSE s.purged_before END
            FROM progress p WHERE s.id = p.id RETURNING p.done`,
          (rows) => {
            const sandboxes = rows.filter(({ done }) => done).length
            return { sandboxes, more: rows.length === limit || sandboxes < rows.length }
          }
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
