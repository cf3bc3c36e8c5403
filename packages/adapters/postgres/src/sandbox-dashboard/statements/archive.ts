import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { iso } from "../../sql/Iso.ts"
import { textArray } from "../../sql/TextArray.ts"

/** Archives these sandboxes of the grant, or undoes it. Rows: those that changed. They are locked in the order of their ids. */
export const updateArchived = (
  sql: SqlClient.SqlClient,
  grantId: string,
  ids: ReadonlyArray<SandboxId>,
  archivedAt: DateTime.Utc | null
) =>
  sql<{ readonly id: SandboxId }>`
        UPDATE sandboxes s SET archived_at = ${iso(archivedAt)} FROM (
          SELECT id FROM sandboxes
          WHERE id = ANY(${textArray(ids)}::text[]) AND grant_id = ${grantId} AND deleted_at IS NULL
            AND (archived_at IS NULL) = ${archivedAt !== null}
          ORDER BY id FOR NO KEY UPDATE
        ) chosen WHERE s.id = chosen.id RETURNING s.id`

/** The archived ones of these sandboxes. */
export const archivedRows = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, ids: Schema.Array(SandboxId) }),
    Result: Schema.Struct({ id: SandboxId }),
    execute: ({ grantId, ids }) =>
      reads`
        SELECT id FROM sandboxes
        WHERE id = ANY(${textArray(ids)}::text[]) AND grant_id = ${grantId} AND archived_at IS NOT NULL AND deleted_at IS NULL`
  })
