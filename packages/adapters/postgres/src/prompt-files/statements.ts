/** Statements on files of prompts and their uses. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CREATED_WITHIN, type StoredFile, UNUSED_FOR } from "@slipway/domain/sandbox/ports/PromptFiles"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { textArray } from "../sql/TextArray.ts"

const iso = DateTime.formatIso

const File = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  name: Schema.String,
  mediaType: Schema.String,
  size: Int8,
  sha256: Schema.String,
  createdAt: Instant,
  isUsed: Schema.Boolean
})

const COLUMNS = `f.id, f.grant_id AS "grantId", f.name, f.media_type AS "mediaType", f.size, f.sha256, f.created_at AS "createdAt",
  f.used AS "isUsed"`

const rows = (sql: SqlClient.SqlClient, rest: Statement.Fragment) =>
  SqlSchema.findAll({ Request: Schema.Void, Result: File, execute: () => sql`SELECT ${sql.literal(COLUMNS)} ${rest}` })(undefined)

/** Unused files that were uploaded at this time or earlier have expired. */
const expired = (now: DateTime.Utc) => iso(DateTime.subtractDuration(now, UNUSED_FOR))

/** Whether the file `f` is there: used by a sandbox, or never used and not expired. */
const isThere = (sql: SqlClient.SqlClient, now: DateTime.Utc) =>
  sql`f.stored AND CASE WHEN f.used THEN EXISTS (SELECT FROM prompt_file_uses u WHERE u.file_id = f.id)
    ELSE f.created_at > ${expired(now)}::timestamptz END`

/** Changes of a grant's files, or of a sandbox's, come one after the other. */
export const lock = (sql: SqlClient.SqlClient, of: string) => sql`SELECT pg_advisory_xact_lock(hashtextextended(${`files/${of}`}, 0))`

export const insertFile = (sql: SqlClient.SqlClient, file: Omit<StoredFile, "isUsed">) =>
  sql`
    INSERT INTO prompt_files (id, grant_id, name, media_type, size, sha256, created_at)
    VALUES (${file.id}, ${file.grantId}, ${file.name}, ${file.mediaType}, ${file.size}, ${file.sha256}, ${iso(file.createdAt)})`

export const markStored = (sql: SqlClient.SqlClient, { grantId, id }: { readonly grantId: string; readonly id: string }) =>
  sql`UPDATE prompt_files SET stored = true WHERE id = ${id} AND grant_id = ${grantId}`

export const deleteBegun = (sql: SqlClient.SqlClient, { grantId, id }: { readonly grantId: string; readonly id: string }) =>
  sql`DELETE FROM prompt_files WHERE id = ${id} AND grant_id = ${grantId} AND NOT stored`

/** Also those whose bytes are being stored. */
export const sumUnused = (sql: SqlClient.SqlClient, grantId: string, now: DateTime.Utc) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ bytes: Int8 }),
    execute: () =>
      sql`
        SELECT coalesce(sum(size), 0)::bigint AS bytes FROM prompt_files
        WHERE grant_id = ${grantId} AND NOT used AND created_at > ${expired(now)}::timestamptz`
  })(undefined)

export const selectFile = (
  sql: SqlClient.SqlClient,
  { grantId, id }: { readonly grantId: string; readonly id: string },
  now: DateTime.Utc
) => rows(sql, sql`FROM prompt_files f WHERE f.id = ${id} AND f.grant_id = ${grantId} AND ${isThere(sql, now)}`)

/** Locks the files that are there: a purge skips them, or they wait for its end. */
export const lockFiles = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  sql`SELECT FROM prompt_files WHERE id = ANY(${textArray(ids)}::text[]) ORDER BY id FOR UPDATE`

export const selectFiles = (sql: SqlClient.SqlClient, grantId: string, ids: ReadonlyArray<string>, now: DateTime.Utc) =>
  rows(sql, sql`FROM prompt_files f WHERE f.id = ANY(${textArray(ids)}::text[]) AND f.grant_id = ${grantId} AND ${isThere(sql, now)}`)

/** The files of a sandbox that is not deleted, or does not exist yet. */
export const selectOfSandbox = (sql: SqlClient.SqlClient, id: SandboxId) =>
  rows(
    sql,
    sql`
      FROM prompt_file_uses u JOIN prompt_files f ON f.id = u.file_id
      WHERE u.sandbox_id = ${id} AND NOT EXISTS (SELECT FROM sandboxes s WHERE s.id = u.sandbox_id AND s.deleted_at IS NOT NULL)
      ORDER BY u.position`
  )

export const insertUses = (sql: SqlClient.SqlClient, id: SandboxId, ids: ReadonlyArray<string>, now: DateTime.Utc) =>
  sql`
    INSERT INTO prompt_file_uses (sandbox_id, file_id, position, at)
    SELECT ${id}, w.id, w.n + (SELECT coalesce(max(position), 0) FROM prompt_file_uses WHERE sandbox_id = ${id}), ${iso(now)}
    FROM unnest(${textArray(ids)}::text[]) WITH ORDINALITY AS w(id, n)`

export const markUsed = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  sql`UPDATE prompt_files SET used = true WHERE id = ANY(${textArray(ids)}::text[]) AND NOT used`

export const deleteUses = (sql: SqlClient.SqlClient, id: SandboxId, ids: ReadonlyArray<string>) =>
  sql`DELETE FROM prompt_file_uses WHERE sandbox_id = ${id} AND file_id = ANY(${textArray(ids)}::text[])`

/** A file that no sandbox uses after all can be used again. */
export const markUnused = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  sql`
    UPDATE prompt_files f SET used = false
    WHERE id = ANY(${textArray(ids)}::text[]) AND NOT EXISTS (SELECT FROM prompt_file_uses u WHERE u.file_id = f.id)`

/** Uses end with the events of their sandbox, or if the creation of the sandbox failed. */
export const endUses = (sql: SqlClient.SqlClient, now: DateTime.Utc) =>
  sql`
    DELETE FROM prompt_file_uses u USING prompt_file_uses known LEFT JOIN sandboxes s ON s.id = known.sandbox_id
    WHERE u.sandbox_id = known.sandbox_id AND u.file_id = known.file_id AND (
      s.id IS NULL AND known.at <= ${iso(DateTime.subtractDuration(now, CREATED_WITHIN))}::timestamptz
      OR s.deleted_at IS NOT NULL
      OR s.status IN ('succeeded', 'failed', 'terminated') AND s.purged_seq >= s.last_seq
    )`

/** Locks files that are left. Those that another process has are skipped. */
export const lockLeft = (sql: SqlClient.SqlClient, now: DateTime.Utc, limit: number) =>
  sql<{ readonly id: string }>`
    SELECT id FROM prompt_files f
    WHERE CASE WHEN used THEN NOT EXISTS (SELECT FROM prompt_file_uses u WHERE u.file_id = f.id)
      ELSE created_at <= ${expired(now)}::timestamptz END
    ORDER BY created_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`

/** Deletes locked files. A file that was used before it was locked is seen only now, by a new snapshot. */
export const deleteLeft = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ id: Schema.String, grantId: Schema.String, sha256: Schema.String, size: Int8 }),
    execute: () =>
      sql`
        DELETE FROM prompt_files f
        WHERE id = ANY(${textArray(ids)}::text[]) AND NOT EXISTS (SELECT FROM prompt_file_uses u WHERE u.file_id = f.id)
        RETURNING f.id, f.grant_id AS "grantId", f.sha256, f.size`
  })(undefined)
