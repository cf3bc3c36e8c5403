/** Contents of checkpoints: `checkpoint_contents`, one row for each put. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../../sql/Int8.ts"

const jsonOf = (changes: ReadonlyArray<ChangeCounts> | undefined) => changes === undefined ? null : JSON.stringify(changes)

/** A put begins. No row: the lease is stale. */
export const insertContent = (
  sql: SqlClient.SqlClient,
  { fence, sandboxId }: Lease,
  checkpoint: number,
  first: { readonly place: string }
) =>
  sql<{ readonly id: bigint }>`
        INSERT INTO checkpoint_contents (sandbox_id, checkpoint, fence, place)
        SELECT id, ${checkpoint}, fence, ${first.place} FROM sandboxes WHERE id = ${sandboxId} AND fence = ${fence} RETURNING id`

/** A put whose bytes are all stored. No row: the lease is stale. */
export const finishContent = (
  sql: SqlClient.SqlClient,
  id: number,
  { bytes, changes, size }: { readonly size: number; readonly bytes: number; readonly changes: ReadonlyArray<ChangeCounts> | undefined }
) =>
  sql`
        UPDATE checkpoint_contents c SET size = ${size}, bytes = ${bytes}, changes = ${jsonOf(changes)}::jsonb FROM sandboxes s
        WHERE c.id = ${id} AND s.id = c.sandbox_id AND s.fence = c.fence RETURNING 1`

/** Stores the only piece in the database and finishes the put, in one statement: each commit waits for the disk. */
export const finishWithPiece = (
  sql: SqlClient.SqlClient,
  id: number,
  data: Uint8Array,
  { changes, size }: { readonly size: number; readonly changes: ReadonlyArray<ChangeCounts> | undefined }
) =>
  sql`
        WITH finished AS (
          UPDATE checkpoint_contents c SET size = ${size}, bytes = ${data.length}, changes = ${jsonOf(changes)}::jsonb FROM sandboxes s
          WHERE c.id = ${id} AND s.id = c.sandbox_id AND s.fence = c.fence RETURNING c.id
        )
        INSERT INTO checkpoint_chunks (content, n, data) SELECT id, 0, ${data} FROM finished RETURNING 1`

/** The content of a checkpoint, by the primary keys. */
export const findContent = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Tuple([SandboxId, Schema.Int]),
    Result: Schema.Struct({ id: Int8, fence: Int8, place: Schema.String, size: Int8 }),
    execute: ([id, checkpoint]) =>
      sql`
      SELECT c.id, c.fence, c.place, c.size FROM checkpoints k JOIN checkpoint_contents c ON c.id = k.content
      WHERE k.sandbox_id = ${id} AND k.checkpoint = ${checkpoint}`
  })
