/** The newest events of logs. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"

/** By id, along the primary key: a page takes the same time wherever it begins. */
export const headRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ after: Schema.String, limit: Schema.Int }),
    Result: Schema.Struct({ id: SandboxId, seq: Int8 }),
    execute: ({ after, limit }) =>
      sql`
      SELECT id, last_seq AS seq FROM sandboxes
      WHERE id > ${after} AND purged_seq < last_seq AND deleted_at IS NULL ORDER BY id LIMIT ${limit}`
  })
