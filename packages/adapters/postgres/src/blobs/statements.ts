/** Rows of `blobs` and `blob_chunks`. */
import type { BlobKey } from "@slipway/domain/files/ports/Blobs"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../sql/Int8.ts"

/** The blob, if all of it is stored. */
export const findBlob = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, holder: Schema.String, sha256: Schema.String, size: Schema.Natural }),
    Result: Schema.Struct({ id: Int8 }),
    execute: ({ grantId, holder, sha256, size }) =>
      sql`
      SELECT id FROM blobs WHERE grant_id = ${grantId} AND sha256 = ${sha256} AND holder = ${holder} AND whole AND size = ${size}`
  })

/** Stores a blob of one piece, unless it is stored. */
export const insertWhole = (sql: SqlClient.SqlClient, { grantId, holder, sha256, size }: BlobKey, data: Uint8Array) =>
  sql`
  WITH made AS (
    INSERT INTO blobs (grant_id, sha256, holder, size, whole) VALUES (${grantId}, ${sha256}, ${holder}, ${size}, true)
    ON CONFLICT DO NOTHING RETURNING id
  )
  INSERT INTO blob_chunks (blob, n, data) SELECT id, 0, ${data} FROM made`

/** A put of several pieces begins. */
export const insertBlob = (sql: SqlClient.SqlClient, { grantId, holder, sha256, size }: BlobKey) =>
  sql<{ readonly id: bigint }>`
  INSERT INTO blobs (grant_id, sha256, holder, size, whole) VALUES (${grantId}, ${sha256}, ${holder}, ${size}, false) RETURNING id`

export const insertChunk = (sql: SqlClient.SqlClient, id: number, n: number, data: Uint8Array) =>
  sql`INSERT INTO blob_chunks (blob, n, data) VALUES (${id}, ${n}, ${data})`

/** All pieces are stored. No row, or a violated constraint: the blob was removed, or another put was through before. */
export const finishBlob = (sql: SqlClient.SqlClient, id: number) => sql`UPDATE blobs SET whole = true WHERE id = ${id} RETURNING 1`

export const readChunk = (sql: SqlClient.SqlClient, id: number, n: number) =>
  sql<{ readonly data: Uint8Array }>`SELECT data FROM blob_chunks WHERE blob = ${id} AND n = ${n}`

/** What one put stored, with its pieces. */
export const deleteBlob = (sql: SqlClient.SqlClient, id: number) => sql`DELETE FROM blobs WHERE id = ${id}`

/** What all puts of the key stored, also those that were cut. */
export const deleteBlobs = (sql: SqlClient.SqlClient, { grantId, holder, sha256 }: BlobKey) =>
  sql`DELETE FROM blobs WHERE grant_id = ${grantId} AND sha256 = ${sha256} AND holder = ${holder}`
