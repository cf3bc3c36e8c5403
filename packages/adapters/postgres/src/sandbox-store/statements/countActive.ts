/** Counts that the limit on active sandboxes is decided on, within the transaction that creates them. */
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import type { SqlClient } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"
import type { Prepared } from "../rows/Prepared.ts"

/**
 * Locks the grants in the order of their ids: creations of one grant wait for each other. The weakest lock that excludes itself, so a
 * statement that only refers to a grant does not wait.
 */
export const lockGrants = (sql: SqlClient.SqlClient, prepared: ReadonlyArray<Prepared>) =>
  sql`
        SELECT FROM grants WHERE id = ANY(${textArray(prepared.map(({ grantId }) => grantId))}::uuid[]) ORDER BY id FOR NO KEY UPDATE`

/**
 * For each creation: whether its key is bound already, and how many active sandboxes its grant has, counted up to the limit. The partial
 * index over active sandboxes answers the count.
 */
export const countActive = (sql: SqlClient.SqlClient, prepared: ReadonlyArray<Prepared>, limit: number) => {
  const asked = JSON.stringify(prepared.map(({ grantId, id, key, route }) => ({ id, grantId, route, key })))
  return sql<{ readonly id: string; readonly known: boolean; readonly active: bigint }>`
        SELECT r.id,
          EXISTS (
            SELECT FROM idempotency_keys k WHERE k.grant_id = r."grantId" AND k.route = r.route AND k.key = r.key
              AND k.created_at >= now() - make_interval(days => ${RETENTION_DAYS})
          ) AS known,
          (SELECT count(*) FROM (
            SELECT FROM sandboxes s
            WHERE s.grant_id = r."grantId" AND s.status IN ('queued', 'creating', 'running', 'terminating') LIMIT ${limit}
          ) active) AS active
        FROM json_to_recordset(${asked}::json) AS r(id text, "grantId" uuid, route text, key text)`
}
