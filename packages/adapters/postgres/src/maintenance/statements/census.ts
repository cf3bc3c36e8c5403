/** Counts of active sandboxes, and the time of the database. */
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"

export const CensusRow = Schema.Struct({
  status: Schema.Literals(["queued", "creating", "running", "terminating"]),
  count: Int8,
  leased: Int8,
  oldest: Schema.NullOr(Instant),
  approvals: Int8,
  awaiting: Int8,
  isResting: Schema.Boolean
})

/**
 * Counts by status. Of sandboxes at rest only those that a worker holds are read: their index alone does only once they are vacuumed, and
 * counts 50,000 in 70 ms before; the table of sandboxes at rest does in 8 ms (2026-11-23).
 */
export const censusRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
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

export const theTime = (reads: SqlClient.SqlClient) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ now: Instant }),
    execute: () => reads`SELECT clock_timestamp() AS now`
  })
