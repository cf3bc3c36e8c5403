/** Trace contexts of requests, by sandbox and turn. The empty turn is the creation's. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SqlClient } from "effect/sql"

/** Keeps the first trace of a turn. */
export const keepTrace = (sql: SqlClient.SqlClient, id: SandboxId, turnId: string, trace: string) =>
  sql`
              INSERT INTO traces (sandbox_id, turn_id, traceparent) VALUES (${id}, ${turnId}, ${trace})
              ON CONFLICT DO NOTHING`

/** The traces of the creation and of one turn. */
export const selectTraces = (sql: SqlClient.SqlClient, id: SandboxId, turnId: string | null) =>
  sql<{ readonly turnId: string; readonly traceparent: string }>`
          SELECT turn_id AS "turnId", traceparent FROM traces WHERE sandbox_id = ${id} AND turn_id IN ('', ${turnId ?? ""})`
