/** Decodes GitHub's answers to our types. Other fields are dropped. */
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import { type Identity, shownName } from "@slipway/domain/access/rules/Identity"
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

const nullable = Schema.NullOr(Schema.String)
const User = Schema.NullOr(Schema.Struct({ login: Schema.String, avatar_url: Schema.String }))

export const Repository = Schema.Struct({ full_name: RepoName, default_branch: Schema.String })

/** An account's access to a repository. `user` is `null` for accounts that are gone. */
export const Permission = Schema.Struct({
  permission: Schema.String,
  user: Schema.NullOr(Schema.Struct({ id: Counter }))
})

export const Branch = Schema.Struct({ name: Schema.String, commit: Schema.Struct({ sha: Schema.String }), protected: Schema.Boolean })

/** Items of a list lack half of the fields of a single pull request. */
export const PullList = Schema.Array(Schema.Struct({
  number: Counter,
  title: Schema.String,
  head: Schema.Struct({ ref: Schema.String, repo: Schema.NullOr(Schema.Struct({ full_name: Schema.String })) })
}))

export const Pull = Schema.Struct({
  id: Counter,
  node_id: Schema.String,
  number: Counter,
  html_url: Schema.String,
  title: Schema.String,
  state: Schema.Literals(["open", "closed"]),
  draft: Schema.optionalKey(Schema.Boolean),
  merged: Schema.Boolean,
  /** `null` while GitHub computes it, which it starts on request. Always `null` for closed ones. */
  mergeable: Schema.NullOr(Schema.Boolean),
  base: Schema.Struct({ ref: Schema.String }),
  head: Schema.Struct({ ref: Schema.String, sha: Schema.String, repo: Schema.NullOr(Schema.Struct({ full_name: Schema.String })) }),
  created_at: Schema.DateTimeUtcFromString,
  updated_at: Schema.DateTimeUtcFromString,
  additions: Counter,
  deletions: Counter,
  changed_files: Counter
})
export type Pull = typeof Pull.Type

export const toPullRequest = (pull: Pull): PullRequest => ({
  id: pull.id,
  nodeId: pull.node_id,
  number: pull.number,
  url: pull.html_url,
  title: pull.title,
  state: pull.state,
  draft: pull.draft ?? false,
  merged: pull.merged,
  baseRef: pull.base.ref,
  headRef: pull.head.ref,
  headSha: pull.head.sha,
  createdAt: pull.created_at,
  updatedAt: pull.updated_at,
  additions: pull.additions,
  deletions: pull.deletions,
  changedFiles: pull.changed_files
})

const CheckRunAnswer = Schema.Struct({
  id: Counter,
  name: Schema.String,
  status: Schema.String,
  conclusion: nullable,
  started_at: nullable,
  completed_at: nullable,
  html_url: nullable
})
/** One page. */
export const CheckRuns = Schema.Struct({ check_runs: Schema.Array(CheckRunAnswer) })

export const toCheckRun = (run: typeof CheckRunAnswer.Type): typeof CheckRun.Type => ({
  id: run.id,
  name: run.name,
  status: run.status,
  url: run.html_url ?? "",
  ...(run.conclusion === null ? {} : { conclusion: run.conclusion }),
  ...(run.started_at === null ? {} : { startedAt: run.started_at }),
  ...(run.completed_at === null ? {} : { completedAt: run.completed_at })
})

const WorkflowRunAnswer = Schema.Struct({
  id: Counter,
  name: Schema.optionalKey(nullable),
  status: nullable,
  conclusion: nullable,
  event: Schema.String,
  head_branch: nullable,
  head_sha: Schema.String,
  run_number: Counter,
  created_at: Schema.String,
  updated_at: Schema.String,
  html_url: Schema.String
})
/** One page. */
export const WorkflowRuns = Schema.Struct({ workflow_runs: Schema.Array(WorkflowRunAnswer) })

export const toWorkflowRun = (run: typeof WorkflowRunAnswer.Type): typeof WorkflowRun.Type => ({
  id: run.id,
  name: run.name ?? "",
  status: run.status ?? "queued",
  event: run.event,
  headBranch: run.head_branch ?? "",
  headSha: run.head_sha,
  runNumber: run.run_number,
  createdAt: run.created_at,
  updatedAt: run.updated_at,
  url: run.html_url,
  ...(run.conclusion === null ? {} : { conclusion: run.conclusion })
})

/** The shown beginning of a comment, and one more character if it was cut. The rest is not kept. */
const Beginning = Schema.String.pipe(Schema.decodeTo(Schema.String, {
  // A substring would keep the whole string in memory.
  decode: SchemaGetter.transform((text) => text.length <= MAX_COMMENT ? text : Buffer.from(text.slice(0, MAX_COMMENT + 1)).toString()),
  encode: SchemaGetter.passthrough()
}))

const CommentAnswer = Schema.Struct({
  id: Counter,
  user: User,
  created_at: Schema.String,
  updated_at: Schema.String,
  html_url: Schema.String,
  body: Schema.optionalKey(Schema.NullOr(Beginning)),
  /** The file of a comment on code. */
  path: Schema.optionalKey(Schema.String),
  /** `null` if the line is no longer in the diff, or the comment is on the whole file. */
  line: Schema.optionalKey(Schema.NullOr(Counter)),
  original_line: Schema.optionalKey(Schema.NullOr(Counter))
})
/** One page of comments on the pull request or on its code. */
export const Comments = Schema.Array(CommentAnswer)

/** Does not split characters. */
const beginningOf = (text: string): string =>
  /[\ud800-\udbff]$/u.test(text.slice(0, MAX_COMMENT))
    ? text.slice(0, MAX_COMMENT - 1)
    : text.slice(0, MAX_COMMENT)

export const toComment = (comment: typeof CommentAnswer.Type): CommentWithText => ({
  id: comment.id,
  title: comment.path === undefined ? "Comment" : `Review comment on ${comment.path}`,
  // GitHub's name for deleted accounts.
  author: comment.user?.login ?? "ghost",
  authorAvatarUrl: comment.user?.avatar_url ?? "",
  createdAt: comment.created_at,
  updatedAt: comment.updated_at,
  url: comment.html_url,
  text: beginningOf(comment.body ?? ""),
  isWhole: (comment.body ?? "").length <= MAX_COMMENT,
  path: comment.path ?? null,
  line: comment.line ?? comment.original_line ?? null,
  // A comment on a whole file has neither line.
  ...(comment.line == null && comment.original_line != null ? { isOutdated: true } : {})
})

/** The account of a user token. */
export const Profile = Schema.Struct({
  id: Counter,
  /** Letters, digits and hyphens; underscores in accounts that an enterprise manages. */
  login: Schema.String.check(Schema.isPattern(/^[\w-]{1,100}$/u)),
  name: Schema.optionalKey(nullable),
  email: Schema.optionalKey(nullable)
})

export const toIdentity = ({ email, id, login, name }: typeof Profile.Type): Identity => ({
  provider: "github",
  subject: String(id),
  login,
  name: shownName(name ?? "", login),
  email: email ?? null,
  entry: AS_INVITED
})
