/** The rows of pull requests of repositories on this machine. */
import type { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type * as Shortstat from "@slipway/git/save/Shortstat"
import { Instant } from "@slipway/postgres/sql/Instant"
import { DateTime, Effect, Option, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

export const Row = Schema.Struct({ ...PullRequest.fields, createdAt: Instant, updatedAt: Instant }).mapFields(
  ({ nodeId: _nodeId, url: _url, ...fields }) => fields
)
export type Row = typeof Row.Type
export const isSame = Schema.toEquivalence(Schema.toType(Row))

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
  id, number, title, state, draft, merged, base_ref AS "baseRef", head_ref AS "headRef", head_sha AS "headSha",
  created_at AS "createdAt", updated_at AS "updatedAt", additions, deletions, changed_files AS "changedFiles"`)
const repositoryId = (sql: SqlClient.SqlClient, repo: RepoName) =>
  sql`(SELECT id FROM local_repositories WHERE lower(full_name) = lower(${repo}))`

export const openFor = (sql: SqlClient.SqlClient, repo: RepoName, headRef: string) =>
  SqlSchema.findOneOption({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
      SELECT ${columns(sql)} FROM local_pull_requests
      WHERE repository_id = ${repositoryId(sql, repo)} AND head_ref = ${headRef} AND state = 'open'`
  })()
export const numbered = (sql: SqlClient.SqlClient, repo: RepoName, number: number) =>
  SqlSchema.findOneOption({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`SELECT ${columns(sql)} FROM local_pull_requests WHERE repository_id = ${repositoryId(sql, repo)} AND number = ${number}`
  })()

/** Those that were open at the last look, newest first. */
export const newestOpen = (sql: SqlClient.SqlClient, repo: RepoName, limit: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
      SELECT ${columns(sql)} FROM local_pull_requests
      WHERE repository_id = ${repositoryId(sql, repo)} AND state = 'open' ORDER BY number DESC LIMIT ${limit}`
  })()

export const description = (sql: SqlClient.SqlClient, repo: RepoName, number: number) =>
  SqlSchema.findOneOption({
    Request: Schema.Void,
    Result: Schema.Struct({ body: Schema.String }),
    execute: () => sql`SELECT body FROM local_pull_requests WHERE repository_id = ${repositoryId(sql, repo)} AND number = ${number}`
  })().pipe(Effect.map(Option.match({ onNone: () => "", onSome: ({ body }) => body })))

/** The number is drawn under the lock of the repository's row, and returned if the insert fails. */
export const insert = (
  sql: SqlClient.SqlClient,
  repo: RepoName,
  draft: Parameters<SourceHost["Service"]["openDraftPullRequest"]>[1],
  counts: Shortstat.Counts
) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
      WITH repository AS (
        UPDATE local_repositories SET pull_requests = pull_requests + 1 WHERE lower(full_name) = lower(${repo})
        RETURNING id, pull_requests
      )
      INSERT INTO local_pull_requests (repository_id, number, title, body, state, draft, merged, base_ref, head_ref, head_sha,
        additions, deletions, changed_files, created_at, updated_at)
      SELECT id, pull_requests, ${draft.title}, ${draft.body}, 'open', true, false, ${draft.baseRef}, ${draft.headRef}, ${draft.headSha},
        ${counts.additions}::integer, ${counts.deletions}::integer, ${counts.changedFiles}::integer,
        ${DateTime.formatIso(draft.at)}::timestamptz, ${DateTime.formatIso(draft.at)}::timestamptz
      FROM repository
      RETURNING ${columns(sql)}`
  })().pipe(Effect.catchTag("NoSuchElementError", Effect.die))

export const update = (sql: SqlClient.SqlClient, row: Row) =>
  sql`
    UPDATE local_pull_requests SET state = ${row.state}, merged = ${row.merged}, head_sha = ${row.headSha}, additions = ${row.additions},
      deletions = ${row.deletions}, changed_files = ${row.changedFiles}, updated_at = ${DateTime.formatIso(row.updatedAt)}
    WHERE id = ${row.id} AND state = 'open'`

/** Ends the draft of an open pull request. */
export const ready = (sql: SqlClient.SqlClient, id: number, at: DateTime.Utc) =>
  sql`UPDATE local_pull_requests SET draft = false, updated_at = ${DateTime.formatIso(at)} WHERE id = ${id} AND state = 'open' AND draft`
