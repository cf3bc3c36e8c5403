/** Calls of models: `model_calls`, by call, by sandbox, and by age among those that are over. */
import type { ModelCall } from "@slipway/domain/models/ports/Spending"
import { DateTime } from "effect"
import type { SqlClient } from "effect/sql"

export const insertOpen = (sql: SqlClient.SqlClient, { id, sandboxId }: ModelCall, microUsd: number, micros: number) =>
  sql`
              INSERT INTO model_calls (id, sandbox_id, reserved, micros, state)
              VALUES (${id}, ${sandboxId}, ${microUsd}, ${micros}, 'open')`

/** `left`: credits that stay reserved for the call. */
export const saveCharged = (sql: SqlClient.SqlClient, { id, sandboxId }: ModelCall, left: number) =>
  sql`
            INSERT INTO model_calls (id, sandbox_id, reserved, micros, state) VALUES (${id}, ${sandboxId}, 0, ${left}, 'charged')
            ON CONFLICT (id) DO UPDATE SET reserved = 0, micros = excluded.micros, state = 'charged'`

/** Credits that are reserved for calls of a sandbox. */
export const sumReserved = (sql: SqlClient.SqlClient, sandboxId: string) =>
  sql<{ readonly micros: bigint }>`
              SELECT coalesce(sum(micros), 0)::bigint AS micros FROM model_calls WHERE sandbox_id = ${sandboxId} AND micros > 0`

export const clearReserved = (sql: SqlClient.SqlClient, sandboxId: string) =>
  sql`UPDATE model_calls SET micros = 0 WHERE sandbox_id = ${sandboxId} AND micros > 0`

export const releaseOpen = (sql: SqlClient.SqlClient, sandboxId: string) =>
  sql`UPDATE model_calls SET state = 'released', reserved = 0 WHERE sandbox_id = ${sandboxId} AND state = 'open'`

/** Sandboxes with open calls, after an id, by the partial index over them. */
export const selectReserved = (reads: SqlClient.SqlClient, after: string | null, limit: number) =>
  reads<{ readonly id: string }>`
          SELECT DISTINCT sandbox_id COLLATE "C" AS id FROM model_calls
          WHERE state = 'open' AND sandbox_id COLLATE "C" > ${after ?? ""} ORDER BY 1 LIMIT ${limit}`

/** Deletes the oldest calls that are over (0060). Rows that another process deletes are skipped. */
export const purgeCalls = (sql: SqlClient.SqlClient, before: DateTime.Utc, limit: number) =>
  sql`
            DELETE FROM model_calls WHERE id IN (
              SELECT id FROM model_calls WHERE state <> 'open' AND micros = 0 AND at < ${DateTime.formatIso(before)}::timestamptz
              ORDER BY at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) RETURNING 1`
