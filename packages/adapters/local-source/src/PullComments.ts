/** The comments on pull requests of repositories on this machine. */
import type { FeedbackItem } from "@slipway/domain/source/ports/PullRequestFeedback"
import type { NewReview } from "@slipway/domain/source/ports/PullRequests"
import { type CommentWithText, MAX_COMMENT } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Instant } from "@slipway/postgres/sql/Instant"
import { DateTime, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

/** The newest comments that are read. */
const MAX_READ = 1_000

/** A comment. `authorId`: `null` for the service's own. */
const CommentRow = Schema.Struct({
  id: Schema.BigInt,
  authorId: Schema.NullOr(Schema.String),
  author: Schema.String,
  isReview: Schema.Boolean,
  body: Schema.String,
  path: Schema.NullOr(Schema.String),
  line: Schema.NullOr(Schema.Int),
  createdAt: Instant,
  updatedAt: Instant
})
type CommentRow = typeof CommentRow.Type

const pullId = (sql: SqlClient.SqlClient, repo: RepoName, number: number) =>
  sql`(
    SELECT p.id FROM local_pull_requests p JOIN local_repositories r ON r.id = p.repository_id
    WHERE lower(r.full_name) = lower(${repo}) AND p.number = ${number}
  )`

/** The newest comments, oldest first. */
export const commentsOf = (sql: SqlClient.SqlClient, repo: RepoName, number: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: CommentRow,
    execute: () =>
      sql`
      SELECT * FROM (
        SELECT id, author_id AS "authorId", author, is_review AS "isReview", body, path, line, created_at AS "createdAt",
          updated_at AS "updatedAt"
        FROM local_pull_comments WHERE pull_request_id = ${pullId(sql, repo, number)} ORDER BY id DESC LIMIT ${MAX_READ}
      ) newest ORDER BY id`
  })()

/** Adds the texts of a review that are not there yet. */
export const addReview = (sql: SqlClient.SqlClient, repo: RepoName, number: number, { at, author, comments, key, text }: NewReview) => {
  const rows = [
    ...(text.trim() === "" ? [] : [{ key: `review:${key}`, body: text, path: null, line: null }]),
    ...comments.map(({ line, path, text }, i) => ({ key: `review:${key}/${i + 1}`, body: text, path, line }))
  ]
  return sql`
    INSERT INTO local_pull_comments (pull_request_id, key, author_id, author, is_review, body, path, line, created_at, updated_at)
    SELECT ${pullId(sql, repo, number)}, c.key, ${author.id}, ${author.login}, true, c.body, c.path, c.line,
      ${DateTime.formatIso(at)}::timestamptz, ${DateTime.formatIso(at)}::timestamptz
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS c(key text, body text, path text, line integer)
    ON CONFLICT (pull_request_id, key) WHERE key IS NOT NULL DO NOTHING`
}

/** Writes the service's comment with the key, or replaces its text. Gives its id. */
export const putReply = (sql: SqlClient.SqlClient, repo: RepoName, number: number, reply: {
  readonly key: string
  readonly text: string
  readonly at: DateTime.Utc
}) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ id: Schema.BigInt }),
    execute: () =>
      sql`
      INSERT INTO local_pull_comments AS known (pull_request_id, key, author, is_review, body, created_at, updated_at)
      VALUES (${pullId(sql, repo, number)}, ${`reply:${reply.key}`}, 'Slipway', false, ${reply.text},
        ${DateTime.formatIso(reply.at)}::timestamptz, ${DateTime.formatIso(reply.at)}::timestamptz)
      ON CONFLICT (pull_request_id, key) WHERE key IS NOT NULL DO UPDATE SET body = excluded.body, updated_at = CASE
        WHEN known.body = excluded.body THEN known.updated_at ELSE excluded.updated_at END
      RETURNING id`
  })().pipe(Effect.catchTag("NoSuchElementError", Effect.die))

/** The place of a comment on the page of its pull request. */
export const commentUrl = (pullUrl: string, id: bigint): string => `${pullUrl}#comment-${id}`

/** As feedback. */
export const toItem = (
  pullUrl: string,
  { author, authorId, body, createdAt, id, isReview, line, path, updatedAt }: CommentRow
): FeedbackItem => ({
  id: `local:${id}`,
  kind: path !== null ? "review_comment" : isReview ? "review" : "comment",
  author: { id: authorId ?? "", login: author, isBot: authorId === null },
  body,
  path,
  line,
  url: commentUrl(pullUrl, id),
  at: createdAt,
  updatedAt
})

/** As pages and clients get it. */
export const toComment = (pullUrl: string, { author, body, createdAt, id, line, path, updatedAt }: CommentRow): CommentWithText => ({
  id: Number(id),
  title: path === null ? "Comment" : `Review comment on ${path}`,
  author,
  authorAvatarUrl: "",
  createdAt: DateTime.formatIso(createdAt),
  updatedAt: DateTime.formatIso(updatedAt),
  url: commentUrl(pullUrl, id),
  text: body.slice(0, MAX_COMMENT).toWellFormed(),
  isWhole: body.length <= MAX_COMMENT,
  path,
  line
})
