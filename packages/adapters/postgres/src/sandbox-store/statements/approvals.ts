import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Approval } from "@slipway/domain/sandbox/schema/Approval"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"

/** The state of these approvals in the given order, by the primary key of sandbox and approval. Unknown ids have no row. */
export const approvalRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ id: SandboxId, approvalIds: Schema.Array(Schema.String) }),
    Result: Schema.Struct({ ...Approval.fields, reason: Schema.NullOr(Schema.String) }),
    execute: ({ approvalIds, id }) =>
      sql`
        SELECT approval_id AS "approvalId", outcome, resolved_by AS by, reason FROM approvals
        WHERE sandbox_id = ${id} AND approval_id = ANY(${textArray(approvalIds)}::text[])
        ORDER BY array_position(${textArray(approvalIds)}::text[], approval_id)`
  })
