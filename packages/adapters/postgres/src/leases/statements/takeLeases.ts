import { LEASE_SECONDS } from "@slipway/domain/sandbox/ports/Leases"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { Duration } from "effect"
import type { SqlClient } from "effect/sql"
import { COLUMNS } from "../../sandbox-store/rows/SandboxRow.ts"

/** A lease that was given back is not held, even if the database's clock went back since. */
const IS_HELD = "(s.worker IS NOT NULL AND s.lease_until > now())"

/** As the rule `isGivenUp` says, of `sandboxes s LEFT JOIN drained_machines d`. */
const IS_GIVEN_UP = `(
          (s.drained OR d.at >= s.lease_until) AND NOT is_unsaved(s.turn, s.checkpoint, s.origin, s.owes_checkpoint, s.pinned))`

/** As the rule `mayLease` says, of the same rows. */
const isFree = (sql: SqlClient.SqlClient, machine: string, limits: Limits) => {
  const [isHeld, isGivenUp] = [sql.literal(IS_HELD), sql.literal(IS_GIVEN_UP)]
  return sql`(s.lease_until IS NULL OR NOT ${isHeld} AND (
          s.machine = ${machine} OR s.status IN ('succeeded', 'failed') OR coalesce(${isGivenUp}, false)
          OR greatest(s.lease_until, s.work_since) <= now() - make_interval(secs => ${Duration.toSeconds(limits.lost)})))`
}

export interface TakeRequest {
  readonly worker: string
  readonly machine: string
  readonly boots: number
  readonly errands: number
  readonly slots: number
}

/**
 * Takes leases for a worker, in the order of the rule `leaseOrder`: of all boots those that find room, then of these and the turns.
 * Reads only rows with work, by their partial index: 2 ms, and as much for the plan, with 200 of them among 100,000 at rest
 * (2026-11-23). Rows that another worker is taking are skipped, so each of the two inner statements looks at twice as many as it needs.
 */
export const takeLeases = (
  sql: SqlClient.SqlClient,
  limits: Limits,
  { boots, errands, machine, slots, worker }: TakeRequest
) => {
  const columns = sql.literal(COLUMNS)
  const isHeld = sql.literal(IS_HELD)
  const isGivenUp = sql.literal(IS_GIVEN_UP)
  const free = isFree(sql, machine, limits)
  const age = sql.literal("work_since, created_at, id")
  const next = (work: "boot" | "turn", limit: number) =>
    sql`
          SELECT s.id, s.grant_id, s.work_since, s.created_at, next.held FROM sandboxes s JOIN (
            SELECT id, turn, held FROM waiting WHERE work = ${work} AND free ORDER BY turn, ${age} LIMIT ${limit * 2}
          ) next ON next.id = s.id LEFT JOIN drained_machines d ON d.machine = s.machine
          WHERE s.work = ${work} AND ${free}
          ORDER BY next.turn, s.work_since, s.created_at, s.id LIMIT ${limit} FOR UPDATE OF s SKIP LOCKED`
  return sql`
            WITH waiting AS (
              SELECT *, held + count(*) FILTER (WHERE free) OVER (PARTITION BY grant_id, work ORDER BY ${age}) AS turn
              FROM (
                SELECT s.id, s.grant_id, s.created_at, s.work, s.work_since, ${free} AS free,
                  count(*) FILTER (WHERE ${isHeld}) OVER (PARTITION BY s.grant_id) AS held
                FROM sandboxes s LEFT JOIN drained_machines d ON d.machine = s.machine WHERE s.work IN ('boot', 'turn')
              ) slotted
            ), boots AS (
              ${next("boot", Math.min(boots, slots))}
            ), turns AS (
              ${next("turn", slots)}
            ), slotted AS (
              SELECT id FROM (
                SELECT id, work_since, created_at, held + row_number() OVER (PARTITION BY grant_id ORDER BY ${age}) AS turn
                FROM (SELECT * FROM boots UNION ALL SELECT * FROM turns) locked
              ) chosen ORDER BY turn, ${age} LIMIT ${slots}
            ), errands AS (
              SELECT s.id FROM sandboxes s LEFT JOIN drained_machines d ON d.machine = s.machine
              WHERE s.work = 'errand' AND ${free}
              ORDER BY s.work_since, s.created_at, s.id LIMIT ${errands} FOR UPDATE OF s SKIP LOCKED
            ), taken AS (
              SELECT s.id, nullif(coalesce(s.moved_from, s.machine), ${machine}) AS origin,
                coalesce(s.moved, CASE WHEN ${isGivenUp} THEN 'drained' ELSE 'lost' END) AS cause
              FROM (SELECT * FROM errands UNION ALL SELECT * FROM slotted) chosen JOIN sandboxes s ON s.id = chosen.id
              LEFT JOIN drained_machines d ON d.machine = s.machine
            )
            UPDATE sandboxes s SET
              fence = s.fence + 1, worker = ${worker}, machine = ${machine}, drained = false, moved_from = taken.origin,
              moved = CASE WHEN taken.origin IS NOT NULL THEN taken.cause END,
              moved_fence = CASE WHEN taken.origin IS NOT NULL THEN s.fence + 1 END,
              lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
            FROM taken WHERE s.id = taken.id
            RETURNING ${columns}, s.fence, s.agent_session, s.moved`.values
}
