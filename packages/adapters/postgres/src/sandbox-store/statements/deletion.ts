/** Deletes a sandbox: its row becomes a tombstone, and the rows of other tables go. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type DateTime, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { iso } from "../../sql/Iso.ts"
import { messagesRoute } from "./idempotencyKeys.ts"
import type { SandboxKey } from "./selectSandboxes.ts"

/** Rows of a long log that one statement deletes: 1 s of work, as in a purge. */
const SLICE = { rows: 10_000, bytes: 16 * 1024 * 1024 }

/**
 * Columns of a tombstone. Everything that people, agents or hosts wrote is empty, and no worker has a lease on it. What is left: id, grant,
 * times, status, counters and costs.
 */
export const TOMBSTONE = {
  title: "''",
  repos: "'[]'",
  repo_names: "'{}'",
  prompt: "''",
  model: "''",
  agent_runtime: "''",
  reasoning_effort: "NULL",
  tool_approval_mode: "''",
  metadata: "'{}'",
  created_by: "''",
  error: "NULL",
  turn: "NULL",
  approvals: "'[]'",
  publications: "'[]'",
  feedback: "NULL",
  continues: "NULL",
  environment: "NULL",
  mcp_servers: "NULL",
  syncing: "false",
  deadline_at: "NULL",
  worker: "NULL",
  machine: "NULL",
  lease_until: "NULL",
  agent_session: "NULL",
  owes_checkpoint: "false",
  restoring: "NULL",
  origin: "NULL",
  work: "NULL",
  work_since: "NULL",
  drained: "false",
  pinned: "false",
  moved: "NULL",
  moved_from: "NULL",
  moved_fence: "NULL",
  setup_time: "NULL",
  waiting: "'[]'",
  waiting_texts: "'[]'",
  archived_at: "NULL",
  files: "NULL"
} as const

/** Makes the row a tombstone. Every lease is stale from now on. */
export const bury = (sql: SqlClient.SqlClient, { grantId, id }: SandboxKey, now: DateTime.Utc) => {
  const columns = sql.literal(Object.entries(TOMBSTONE).map(([column, value]) => `${column} = ${value}`).join(", "))
  return sql`
        UPDATE sandboxes SET ${columns}, fence = fence + 1, work_seq = last_seq, deleted_at = ${iso(now)}
        WHERE id = ${id} AND grant_id = ${grantId} AND deleted_at IS NULL RETURNING 1`
}

/**
 * Deletes its rows in tables with few of them, with the answers of webhook endpoints, which may quote it. Pushed commits stay: secrets
 * depend on them (docs/decisions/17).
 */
export const deleteRows = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, { grantId, id }: SandboxKey) {
  const tables = ["search_texts", "commands", "approvals", "questions", "traces", "sandbox_setups", "notifications", "notification_lines",
    "feedback_watches", "prompt_file_uses", "artifact_lists"]
  for (const table of tables) {
    yield* sql`DELETE FROM ${sql(table)} WHERE sandbox_id = ${id}`
  }
  yield* sql`DELETE FROM sandbox_pins WHERE grant_id = ${grantId} AND sandbox_id = ${id}`
  yield* sql`
        DELETE FROM webhook_deliveries
        WHERE sandbox_id = ${id} AND endpoint_id IN (SELECT id FROM webhook_endpoints WHERE grant_id = ${grantId})`
  yield* sql`DELETE FROM idempotency_keys WHERE grant_id = ${grantId} AND route = ${messagesRoute(id)}`
})

/**
 * Deletes the oldest events and messages of a tombstone. No row: nothing was left. The sandbox counts as purged once there are none.
 */
export const deleteSlice = (sql: SqlClient.SqlClient, id: SandboxId) => {
  const oldest = (table: Statement.Fragment, text: Statement.Fragment) =>
    sql`
            SELECT seq FROM (
              SELECT seq, sum(bytes) OVER (ORDER BY seq) - bytes AS bytes_before FROM (
                SELECT seq, octet_length(${text}) AS bytes FROM ${table} WHERE sandbox_id = ${id} ORDER BY seq LIMIT ${SLICE.rows}
              ) rows
            ) sliced WHERE bytes_before < ${SLICE.bytes}`
  return sql`
        WITH dead AS MATERIALIZED (
          SELECT id FROM sandboxes WHERE id = ${id} AND deleted_at IS NOT NULL AND purged_seq < last_seq FOR UPDATE
        ), gone AS (
          DELETE FROM sandbox_events USING dead
          WHERE sandbox_id = dead.id AND seq IN (${oldest(sql`sandbox_events`, sql`wire`)}) RETURNING 1
        ), said AS (
          DELETE FROM messages USING dead WHERE sandbox_id = dead.id AND seq IN (${oldest(sql`messages`, sql`text`)}) RETURNING 1
        )
        UPDATE sandboxes s SET
          purged_seq = CASE WHEN n.gone + n.said = 0 THEN s.last_seq ELSE s.purged_seq END,
          purged_before = CASE WHEN n.gone + n.said = 0 THEN greatest(s.deleted_at, s.status_at) ELSE s.purged_before END
        FROM dead, (SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM said) AS said) n
        WHERE s.id = dead.id RETURNING 1`
}

/** Tombstones with rows left. */
export const selectDeleting = (sql: SqlClient.SqlClient, limit: number) =>
  sql<{ readonly id: SandboxId }>`SELECT id FROM sandboxes WHERE deleted_at IS NOT NULL AND purged_seq < last_seq LIMIT ${limit}`
