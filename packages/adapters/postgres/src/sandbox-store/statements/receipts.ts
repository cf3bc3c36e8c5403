/** Receipts of commands: the table `commands`. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Receipt } from "@slipway/domain/sandbox/rules/Command"
import { type DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { iso } from "../../sql/Iso.ts"

/** The receipt of a command, by its primary key; `null`: the command was never decided. */
export const findReceipt = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, commandId: string) {
  const [row] = yield* sql<{ readonly outcome: Receipt["outcome"]; readonly revision: bigint; readonly turnId: string | null }>`
        SELECT outcome, revision, turn_id AS "turnId" FROM commands WHERE id = ${commandId}`
  return row === undefined ? null : { commandId, outcome: row.outcome, revision: Number(row.revision), turnId: row.turnId }
})

/** Whether a command of this sandbox got this turn. */
export const hasReceipt = (sql: SqlClient.SqlClient, id: SandboxId, turnId: string) =>
  Effect.map(sql`SELECT FROM commands WHERE turn_id = ${turnId} AND sandbox_id = ${id} LIMIT 1`, (rows) => rows.length > 0)

/** Keeps a receipt. A rejected command that is applied later replaces its receipt. */
export const keepReceipt = (sql: SqlClient.SqlClient, id: SandboxId, keep: Receipt, now: DateTime.Utc) =>
  sql`
              INSERT INTO commands (id, sandbox_id, outcome, revision, turn_id, at)
              VALUES (${keep.commandId}, ${id}, ${keep.outcome}, ${keep.revision}, ${keep.turnId}, ${iso(now)})
              ON CONFLICT (id) DO UPDATE
              SET outcome = excluded.outcome, revision = excluded.revision, turn_id = excluded.turn_id, at = excluded.at`
