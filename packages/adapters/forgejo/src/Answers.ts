/** Decodes the answers of Forgejo and Gitea to our types. Other fields are dropped. Lists without entries may be `null`. */
import { MAX_FEEDBACK_TEXT } from "@slipway/domain/source/ports/PullRequestFeedback"
import {
  type CheckRun,
  type CommentWithText,
  MAX_COMMENT,
  type PullRequest,
  type WorkflowRun
} from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { Schema, SchemaGetter } from "effect"

const optional = Schema.optionalKey
const Text = optional(Schema.NullOr(Schema.String))
const Count = optional(Schema.NullOr(Counter))
const listOf = <A extends Schema.Top>(entry: A) => Schema.NullOr(Schema.Array(entry))

/** The beginning of a text. A substring would keep the whole string in memory. */
const Beginning = Schema.String.pipe(Schema.decodeTo(Schema.String, {
  decode: SchemaGetter.transform((text) =>
    text.length <= MAX_FEEDBACK_TEXT ? text : Buffer.from(text.slice(0, MAX_FEEDBACK_TEXT).toWellFormed()).toString()
  ),
  encode: SchemaGetter.passthrough()
}))
const Body = optional(Schema.NullOr(Beginning))

/** Accounts of the server itself have negative ids. */
const User = Schema.Struct({ id: Schema.Int, login: Schema.String, avatar_url: optional(Schema.String) })
export const Author = optional(Schema.NullOr(User))
const GHOST = -1

/** Deleted accounts are `Ghost`. Others with negative ids are programs, such as that of Actions. */
export const authorOf = (user: typeof User.Type | null | undefined, own: number | null) =>
  user == null
    ? { id: String(GHOST), login: "Ghost", isBot: false }
    : { id: String(user.id), login: user.login.slice(0, 100), isBot: user.id === own || user.id < GHOST }

/** An account's access to a repository. */
export const Permission = Schema.Struct({ permission: Schema.String, user: Schema.NullOr(Schema.Struct({ id: Schema.Int })) })

export const Branch = Schema.Struct({ name: Schema.String, commit: Schema.Struct({ id: Schema.String }), protected: Schema.Boolean })

export const Labels = listOf(Schema.Struct({ id: Counter, name: Schema.String }))

/** Where a pull request's commits are, or go to. */
const Side = Schema.Struct({
  /** The branch; empty if the pull request was pushed without one (AGit). */
  label: Schema.String,
  /** The branch, or `refs/pull/N/head` once it is deleted. */
  ref: Schema.String,
  sha: Schema.String,
  /** `null`: the repository was deleted, or may not be read. */
  repo: optional(Schema.NullOr(Schema.Struct({ full_name: Schema.String })))
})

export const Pull = Schema.Struct({
  id: Counter,
  number: Counter,
  html_url: Schema.String,
  title: Schema.String,
  state: Schema.Literals(["open", "closed"]),
  draft: Schema.Boolean,
  merged: Schema.Boolean,
  base: Side,
  head: Side,
  created_at: Schema.DateTimeUtcFromString,
  updated_at: Schema.DateTimeUtcFromString,
  /** `null` or missing if the server cannot compare the commits, as after the deletion of a fork. */
  additions: Count,
  deletions: Count,
  changed_files: Count
})
export type Pull = typeof Pull.Type
export const Pulls = listOf(Pull)

/** The prefix that makes a draft, unless the server's operator chose others (`WORK_IN_PROGRESS_PREFIXES`). */
const DRAFT = "WIP: "
/** Bytes of a title that servers keep. */
const MAX_TITLE_BYTES = 255

/** The title of a draft. Longer ones would be cut by the server. */
export const draftTitle = (title: string): string => {
  const bytes = Buffer.from(`${DRAFT}${title.toWellFormed()}`)
  if (bytes.length <= MAX_TITLE_BYTES) return bytes.toString()
  // Not within a character.
  return new TextDecoder().decode(bytes.subarray(0, MAX_TITLE_BYTES), { stream: true })
}

/** The title without its first word, which makes it a draft: such as `WIP:`, `[WIP]`, or another one of the server's operator. */
export const readyTitle = (title: string): string => title.replace(/^\s*(?:\[[^\]\s]{1,40}\]|[^\s:]{1,40}:)\s*/u, "")

/** `null`: the branch is in no repository that still exists. */
export const headRepoOf = ({ head }: Pull): RepoName | null => {
  const name = head.repo?.full_name
  return head.label !== "" && Schema.is(RepoName)(name) ? name : null
}

export const toPullRequest = (pull: Pull): PullRequest => ({
  id: pull.id,
  // The server has no other id.
  nodeId: String(pull.id),
  number: pull.number,
  url: pull.html_url,
  title: pull.draft ? readyTitle(pull.title) : pull.title,
  state: pull.state,
  draft: pull.draft,
  merged: pull.merged,
  baseRef: pull.base.label,
  headRef: pull.head.label === "" ? pull.head.ref : pull.head.label,
  headSha: pull.head.sha,
  createdAt: pull.created_at,
  updatedAt: pull.updated_at,
  additions: pull.additions ?? 0,
  deletions: pull.deletions ?? 0,
  changedFiles: pull.changed_files ?? 0
})

const Status = Schema.Struct({
  id: Counter,
  /** `pending`, `success`, `error`, `failure`, `warning`; in newer servers also `skipped`. */
  status: Schema.String,
  context: Schema.String,
  description: Text,
  target_url: Text,
  created_at: Schema.String,
  updated_at: Schema.String
})
export type Status = typeof Status.Type
/** The newest status of each context. A commit without any has no list. */
export const Statuses = Schema.Struct({ statuses: optional(listOf(Status)) })

/** The domain's words. A `warning` does not fail a commit here. */
const CONCLUSIONS: Readonly<Record<string, string>> = { warning: "neutral" }

export const toCheckRun = (status: Status, webUrl: string): typeof CheckRun.Type => ({
  id: status.id,
  name: status.context,
  url: addressOf(status.target_url ?? "", webUrl),
  startedAt: status.created_at,
  ...(status.status === "pending" ? { status: "pending" } : {
    status: "completed",
    conclusion: CONCLUSIONS[status.status] ?? status.status,
    completedAt: status.updated_at
  })
})

/** Statuses of Actions have addresses without an origin. Other schemes are not shown. */
export const addressOf = (target: string, webUrl: string): string => {
  const url = target === "" ? null : URL.parse(target, webUrl)
  return url !== null && /^https?:$/u.test(url.protocol) ? url.href : ""
}

const Run = Schema.Struct({
  id: Counter,
  name: Text,
  display_title: Text,
  event: Text,
  status: Schema.String,
  conclusion: Text,
  head_branch: Text,
  head_sha: Schema.String,
  run_number: Counter,
  started_at: Text,
  completed_at: Text,
  url: Text,
  html_url: Text,
  /** The workflow's file: Forgejo has the first, Gitea the second. */
  workflow_id: Text,
  path: Text
})
export type Run = typeof Run.Type
/** One page. Forgejo gives the state of a run in one word, Gitea in two, and only Gitea gives times. */
export const Runs = Schema.Struct({ total_count: optional(Counter), workflow_runs: optional(listOf(Run)) })

const ENDED: ReadonlySet<string> = new Set(["success", "failure", "cancelled", "skipped"])

export const toWorkflowRun = (run: Run): typeof WorkflowRun.Type => {
  const conclusion = run.conclusion ?? (ENDED.has(run.status) ? run.status : "")
  return {
    id: run.id,
    name: run.name ?? run.display_title ?? "",
    status: ENDED.has(run.status) ? "completed" : run.status,
    event: run.event ?? "",
    headBranch: run.head_branch ?? "",
    headSha: run.head_sha,
    runNumber: run.run_number,
    createdAt: run.started_at ?? "",
    updatedAt: run.completed_at ?? run.started_at ?? "",
    url: run.html_url ?? run.url ?? "",
    ...(conclusion === "" ? {} : { conclusion })
  }
}

/** The jobs of a run, which only Gitea lists. */
export const Jobs = Schema.Struct({
  total_count: optional(Counter),
  jobs: optional(listOf(Schema.Struct({ id: Counter, html_url: Text })))
})

const Instant = Schema.DateTimeUtcFromString

export const Reviews = listOf(Schema.Struct({
  id: Counter,
  user: Author,
  body: Body,
  html_url: Schema.String,
  /** `PENDING`: it was not submitted. `REQUEST_REVIEW`: nothing was written. */
  state: Schema.String,
  comments_count: optional(Counter),
  submitted_at: Instant,
  updated_at: optional(Instant)
}))
export const ReviewComments = listOf(Schema.Struct({
  id: Counter,
  user: Author,
  body: Body,
  html_url: Schema.String,
  path: Schema.String,
  /** The line in the new file; 0: the comment is on a line that was removed. */
  position: Count,
  original_position: Count,
  created_at: Instant,
  updated_at: Instant
}))
export const IssueComments = listOf(Schema.Struct({
  id: Counter,
  user: Author,
  body: Body,
  html_url: Schema.String,
  created_at: Instant,
  updated_at: Instant
}))

export const lineOf = ({ original_position: old, position }: NonNullable<typeof ReviewComments.Type>[number]): number | null =>
  position != null && position > 0 ? position : old != null && old > 0 ? old : null

/** Does not split characters. */
const beginningOf = (text: string): string =>
  text.slice(0, /[\ud800-\udbff]$/u.test(text.slice(0, MAX_COMMENT)) ? MAX_COMMENT - 1 : MAX_COMMENT)

interface Written
  extends Pick<NonNullable<typeof IssueComments.Type>[number], "body" | "created_at" | "html_url" | "id" | "updated_at" | "user">
{
  readonly path?: string
  readonly line?: number | null
}

export const toComment = (comment: Written): CommentWithText => ({
  id: comment.id,
  title: comment.path === undefined ? "Comment" : `Review comment on ${comment.path}`,
  author: comment.user?.login ?? "Ghost",
  authorAvatarUrl: comment.user?.avatar_url ?? "",
  createdAt: new Date(comment.created_at.epochMilliseconds).toISOString(),
  updatedAt: new Date(comment.updated_at.epochMilliseconds).toISOString(),
  url: comment.html_url,
  text: beginningOf(comment.body ?? ""),
  isWhole: (comment.body ?? "").length <= MAX_COMMENT,
  path: comment.path ?? null,
  line: comment.line ?? null
})
