/** Blobs of the contents of checkpoints: `checkpoint_blobs`. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"

/** Names a blob that is about to be stored. No row: the lease is stale. */
export const insertBlobRow = (
  sql: SqlClient.SqlClient,
  { id, sandboxId }: { readonly id: number; readonly sandboxId: SandboxId },
  { n, sha256, size }: { readonly n: number; readonly sha256: string; readonly size: number }
) =>
  sql<{ readonly grantId: string }>`
  INSERT INTO checkpoint_blobs (content, n, sha256, size)
  SELECT c.id, ${n}, ${sha256}, ${size} FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id AND s.fence = c.fence
  WHERE c.id = ${id} RETURNING (SELECT g.grant_id::text FROM sandboxes g WHERE g.id = ${sandboxId}) AS "grantId"`

/** The blobs of a content, in their order. */
export const blobRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Int,
    Result: Schema.Struct({ n: Schema.Int, sha256: Schema.String, size: Int8, grantId: Schema.String }),
    execute: (content) =>
      sql`
      SELECT b.n, b.sha256, b.size, s.grant_id::text AS "grantId"
      FROM checkpoint_blobs b JOIN checkpoint_contents c ON c.id = b.content JOIN sandboxes s ON s.id = c.sandbox_id
      WHERE b.content = ${content} ORDER BY b.n`
  })
