/** Statements on artifacts and their pieces. */
import { type ArtifactPiece, type StoredArtifacts, UNUSED_PIECE_FOR } from "@slipway/domain/files/ports/ArtifactStore"
import { Artifact } from "@slipway/domain/files/schema/Artifact"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../sql/Int8.ts"
import { textArray } from "../sql/TextArray.ts"

const iso = DateTime.formatIso

const List = Schema.Array(Schema.Struct({
  ...Artifact.fields,
  pieces: Schema.Array(Schema.Struct({ holder: Schema.String, sha256: Schema.String, size: Schema.Natural }))
}))

const encodeList = Schema.encodeSync(Schema.fromJsonString(List))

/** Records a piece, or finds the one with the same bytes. No row: the lease is no longer valid. */
export const insertPiece = (sql: SqlClient.SqlClient, lease: Lease, { holder, sha256, size }: ArtifactPiece, now: DateTime.Utc) =>
  sql<{ readonly holder: string; readonly isStored: boolean }>`
    INSERT INTO artifact_pieces (holder, sandbox_id, grant_id, sha256, size, at)
    SELECT ${holder}, id, grant_id, ${sha256}, ${size}, ${iso(now)}::timestamptz
    FROM sandboxes WHERE id = ${lease.sandboxId} AND fence = ${lease.fence} AND deleted_at IS NULL FOR NO KEY UPDATE
    ON CONFLICT (sandbox_id, sha256) DO UPDATE SET at = excluded.at
    RETURNING holder, stored AS "isStored"`

/** No row: the lease is no longer valid. */
export const upsertList = (sql: SqlClient.SqlClient, lease: Lease, { artifacts, leftOut }: StoredArtifacts) =>
  sql`
    INSERT INTO artifact_lists (sandbox_id, artifacts, left_out)
    SELECT id, ${encodeList(artifacts)}::jsonb, ${leftOut} FROM sandboxes
    WHERE id = ${lease.sandboxId} AND fence = ${lease.fence} AND deleted_at IS NULL FOR NO KEY UPDATE
    ON CONFLICT (sandbox_id) DO UPDATE SET artifacts = excluded.artifacts, left_out = excluded.left_out
    RETURNING 1`

/** Marks the pieces that artifacts have now, and those that they had. */
export const markUsed = (sql: SqlClient.SqlClient, id: SandboxId, holders: ReadonlyArray<string>) =>
  sql`
    UPDATE artifact_pieces SET used = NOT used, stored = stored OR NOT used
    WHERE sandbox_id = ${id} AND used <> (holder = ANY(${textArray(holders)}::text[]))`

export const selectList = (sql: SqlClient.SqlClient, id: SandboxId) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ artifacts: List, leftOut: Schema.NullOr(Schema.String) }),
    execute: () =>
      sql`
        SELECT l.artifacts, l.left_out AS "leftOut" FROM artifact_lists l JOIN sandboxes s ON s.id = l.sandbox_id
        WHERE l.sandbox_id = ${id} AND s.deleted_at IS NULL`
  })(undefined)

/** Artifacts end with the events of their sandbox, or with the sandbox. */
export const deleteLists = (sql: SqlClient.SqlClient) =>
  sql`
    DELETE FROM artifact_lists l USING artifact_lists known LEFT JOIN sandboxes s ON s.id = known.sandbox_id
    WHERE l.sandbox_id = known.sandbox_id AND (
      s.id IS NULL OR s.deleted_at IS NOT NULL
      OR s.status IN ('succeeded', 'failed', 'terminated') AND s.purged_seq >= s.last_seq
    )`

/** Deletes pieces that are left. Those that another process has are skipped. */
export const deleteLeft = (sql: SqlClient.SqlClient, now: DateTime.Utc, limit: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ holder: Schema.String, grantId: Schema.String, sha256: Schema.String, size: Int8 }),
    execute: () =>
      sql`
        DELETE FROM artifact_pieces WHERE holder IN (
          SELECT p.holder FROM artifact_pieces p
          WHERE CASE WHEN p.used THEN NOT EXISTS (SELECT FROM artifact_lists l WHERE l.sandbox_id = p.sandbox_id)
            ELSE p.at <= ${iso(DateTime.subtractDuration(now, UNUSED_PIECE_FOR))}::timestamptz END
          ORDER BY p.at LIMIT ${limit} FOR UPDATE SKIP LOCKED
        )
        RETURNING holder, grant_id AS "grantId", sha256, size`
  })(undefined)
