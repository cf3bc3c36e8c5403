import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Batches from "../../sql/Batches.ts"
import { textArray } from "../../sql/TextArray.ts"
import { COLUMNS, WIDTH } from "../rows/SandboxRow.ts"

export interface SandboxKey {
  readonly id: SandboxId
  readonly grantId: string
}

/**
 * The row of each asked sandbox, in the order of the question; `null`: the grant has no such sandbox. The lateral join with a limit
 * looks every row up by the primary key, whatever the planner knows about the table.
 */
export const selectSandboxes = (reads: SqlClient.SqlClient, asked: ReadonlyArray<SandboxKey>) =>
  Effect.map(
    reads`
          SELECT ${reads.literal(COLUMNS)}, k.n
          FROM unnest(${textArray(asked.map(({ id }) => id))}::text[], ${textArray(asked.map(({ grantId }) => grantId))}::uuid[])
            WITH ORDINALITY AS k(id, grant_id, n)
          CROSS JOIN LATERAL (SELECT * FROM sandboxes WHERE id = k.id AND grant_id = k.grant_id AND deleted_at IS NULL LIMIT 1) s`.values,
    (rows) => Batches.placed(asked, rows, (row) => row[WIDTH])
  )
