/** Changes of leases: columns of one sandbox's row, by its primary key, or of the rows of one machine. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Lease, LEASE_SECONDS } from "@slipway/domain/sandbox/ports/Leases"
import type { SqlClient } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"

/** In the past at once: storing the time rounds it to the millisecond, and could round it up. */
const JUST_NOW = "date_trunc('milliseconds', now())"

/** Its new machine has all of the sandbox. No row: the lease is stale. */
export const updateArrived = (sql: SqlClient.SqlClient, { fence, sandboxId }: Lease) =>
  sql`
          UPDATE sandboxes SET moved = NULL, moved_from = NULL, moved_fence = NULL
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`

/** All leases of a worker in one statement. Rows: those that are still its own. */
export const renewLeases = (renewals: SqlClient.SqlClient, leases: ReadonlyArray<Lease>) =>
  renewals<{ readonly id: string; readonly fence: bigint }>`
          UPDATE sandboxes s SET lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
          FROM jsonb_to_recordset(${JSON.stringify(leases)}::jsonb) AS l("sandboxId" text, fence bigint)
          WHERE s.id = l."sandboxId" AND s.fence = l.fence RETURNING s.id, s.fence`

/** The status conditions match the partial indexes over leases. */
export const endLeases = (sql: SqlClient.SqlClient, machine: string) => {
  const justNow = sql.literal(JUST_NOW)
  return sql`
          UPDATE sandboxes SET lease_until = ${justNow}
          WHERE machine = ${machine} AND lease_until > now() AND worker IS NOT NULL
            AND (status IN ('queued', 'creating', 'running', 'terminating') OR status IN ('succeeded', 'failed'))`
}

/** Gives a lease back if its sandbox has no work. No row: the lease is stale. */
export const restLease = (sql: SqlClient.SqlClient, { fence, sandboxId }: Lease) => {
  const justNow = sql.literal(JUST_NOW)
  return sql<{ readonly rested: boolean }>`
          UPDATE sandboxes SET
            lease_until = CASE WHEN work IS NULL THEN ${justNow} ELSE lease_until END,
            worker = CASE WHEN work IS NULL THEN NULL ELSE worker END
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING work IS NULL AS rested`
}

/** Gives a lease back. `mayMove`: any other machine may take the sandbox at once. */
export const releaseLease = (sql: SqlClient.SqlClient, { fence, sandboxId }: Lease, mayMove: boolean) => {
  const justNow = sql.literal(JUST_NOW)
  return sql`
          UPDATE sandboxes SET lease_until = ${justNow}, worker = NULL, drained = drained OR ${mayMove}
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`
}

/** The machine is in use again. */
export const undrain = (sql: SqlClient.SqlClient, machine: string) =>
  sql`
            WITH back AS (DELETE FROM drained_machines WHERE machine = ${machine})
            UPDATE sandboxes SET drained = false WHERE machine = ${machine} AND drained`

/** Marks a machine as drained, and forgets drained machines that have no sandbox any more. */
export const drain = (sql: SqlClient.SqlClient, machine: string) =>
  sql`
          WITH forgotten AS (
            DELETE FROM drained_machines d WHERE d.machine <> ${machine} AND NOT EXISTS (
              SELECT FROM sandboxes s WHERE s.machine = d.machine AND s.status = 'running' AND s.work IS NULL
            ) AND NOT EXISTS (SELECT FROM sandboxes s WHERE s.machine = d.machine AND s.work IS NOT NULL)
          )
          INSERT INTO drained_machines (machine, at) VALUES (${machine}, now())
          ON CONFLICT (machine) DO UPDATE SET at = excluded.at`

/** No row: the lease is stale. */
export const saveAgentSession = (sql: SqlClient.SqlClient, { fence, sandboxId }: Lease, agentSession: string | null) =>
  sql`
          UPDATE sandboxes SET agent_session = ${agentSession} WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`

/** The machine that most of these sandboxes are on. */
export const selectMachine = (sql: SqlClient.SqlClient, ids: ReadonlyArray<SandboxId>) =>
  sql<{ readonly machine: string }>`
          SELECT machine FROM sandboxes WHERE id = ANY(${textArray(ids)}::text[]) AND machine IS NOT NULL
          GROUP BY machine ORDER BY count(*) DESC LIMIT 1`
