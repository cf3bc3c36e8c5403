/** Pull requests as the interface shows them (2.5). */
import * as Schema from "effect/Schema"
import { SandboxId } from "../../ids/SandboxId.ts"
import { Counter } from "../../text/Text.ts"
import { timestamp } from "../../time/Timestamp.ts"
import { BRANCHES } from "./Naming.ts"
import type { RepoName } from "./RepoRef.ts"

/** A pull request at the host (docs/interface.md 2.5). */
export const PullRequest = Schema.Struct({
  id: Counter.annotateKey({ description: "The host's number of it, over all repositories." }),
  nodeId: Schema.String.annotateKey({ description: "The host's other id of it." }),
  number: Counter.annotateKey({ description: "Its number in the repository." }),
  url: Schema.String.annotateKey({ description: "Its page, for people." }),
  title: Schema.String.annotateKey({ description: "The sandbox's title when it was opened." }),
  state: Schema.Literals(["open", "closed"]).annotateKey({ description: "Merged: `closed` with `merged: true`." }),
  draft: Schema.Boolean.annotateKey({ description: "Whether it is a draft." }),
  merged: Schema.Boolean.annotateKey({ description: "Whether it was merged." }),
  baseRef: Schema.String.annotateKey({ description: "The branch it is to be merged into." }),
  headRef: Schema.String.annotateKey({ description: "The branch the sandbox publishes to." }),
  headSha: Schema.String.annotateKey({ description: "The newest commit of `headRef`." }),
  createdAt: timestamp("When it was opened."),
  updatedAt: timestamp("When anything of it last changed."),
  additions: Counter.annotateKey({ description: "Lines added, all files together." }),
  deletions: Counter.annotateKey({ description: "Lines removed, all files together." }),
  changedFiles: Counter.annotateKey({ description: "Files that differ from the base." })
}).annotate({ identifier: "PullRequest" })
export type PullRequest = typeof PullRequest.Type

/** The state in one word. Merged comes before closed, and closed before draft. */
export const PullState = Schema.Literals(["draft", "open", "merged", "closed"])
export type PullState = typeof PullState.Type

/** One workflow run. `conclusion` and `status` are the host's own words. */
export const WorkflowRun = Schema.Struct({
  id: Counter.annotateKey({ description: "The host's number of it." }),
  name: Schema.String.annotateKey({ description: "The workflow's name." }),
  conclusion: Schema.optionalKey(Schema.String).annotateKey({ description: "How it ended, in the host's word; left out while it runs." }),
  createdAt: Schema.String.annotateKey({ description: "When it was started, as the host writes it." }),
  event: Schema.String.annotateKey({ description: "What started it, such as `push`." }),
  headBranch: Schema.String.annotateKey({ description: "The branch it runs on." }),
  headSha: Schema.String.annotateKey({ description: "The commit it runs on." }),
  runNumber: Counter.annotateKey({ description: "Which run of the workflow it is, from 1." }),
  status: Schema.String.annotateKey({ description: "Where it is, in the host's word, such as `in_progress`." }),
  updatedAt: Schema.String.annotateKey({ description: "When it last changed, as the host writes it." }),
  url: Schema.String.annotateKey({ description: "Its page, for people." })
}).annotate({ identifier: "WorkflowRun" })

/** One check run. Unfinished ones have neither `conclusion` nor `completedAt`. */
export const CheckRun = Schema.Struct({
  id: Counter.annotateKey({ description: "The host's number of it." }),
  name: Schema.String.annotateKey({ description: "The check's name." }),
  completedAt: Schema.optionalKey(Schema.String).annotateKey({ description: "When it ended, as the host writes it; left out before." }),
  conclusion: Schema.optionalKey(Schema.String).annotateKey({ description: "How it ended, in the host's word; left out before." }),
  startedAt: Schema.optionalKey(Schema.String).annotateKey({ description: "When it began, as the host writes it; left out before." }),
  status: Schema.String.annotateKey({ description: "Where it is, in the host's word, such as `completed`." }),
  url: Schema.String.annotateKey({ description: "Its page, for people." })
}).annotate({ identifier: "CheckRun" })

/** The workflows and checks of the head commit. `idle`: there are none. */
export const Checks = Schema.Struct({
  label: Schema.String.annotateKey({ description: "For display: `No checks`, `2 of 3 checks passed`." }),
  runs: Schema.Array(WorkflowRun).annotateKey({ description: "Workflow runs of the head commit." }),
  checkRuns: Schema.Array(CheckRun).annotateKey({ description: "Check runs of the head commit." }),
  state: Schema.Literals(["idle", "pending", "success", "failure", "error"]).annotateKey({
    description: "All of them together; `idle`: there are none."
  }),
  error: Schema.optionalKey(Schema.String).annotateKey({ description: "Why they are not known, for people; left out where they are." }),
  updatedAt: Schema.optionalKey(Schema.String).annotateKey({ description: "When they last changed; left out where that is not known." })
}).annotate({ identifier: "Checks" })
export type Checks = typeof Checks.Type

/** A comment on the pull request or on its code; `title` says on which. */
export const PullRequestComment = Schema.Struct({
  id: Counter.annotateKey({ description: "The host's number of it." }),
  title: Schema.String.annotateKey({ description: "Where it stands: on the pull request, or on a file." }),
  author: Schema.String.annotateKey({ description: "Login of who wrote it." }),
  authorAvatarUrl: Schema.String.annotateKey({ description: "A picture of the author." }),
  createdAt: Schema.String.annotateKey({ description: "When it was written, as the host writes it." }),
  updatedAt: Schema.String.annotateKey({ description: "When it last changed, as the host writes it." }),
  url: Schema.String.annotateKey({ description: "Its place on the page, for people." })
}).annotate({ identifier: "PullRequestComment" })

export type PullRequestComment = typeof PullRequestComment.Type

/** Characters of a comment's text that a source host returns. */
export const MAX_COMMENT = 4_000

/** A comment with its text, for pages. The interface lists comments without their texts. */
export interface CommentWithText extends PullRequestComment {
  /** Untrusted Markdown: at most the first {@link MAX_COMMENT} characters. */
  readonly text: string
  /** Whether the text is complete. */
  readonly isWhole: boolean
  /** The file in the repository, for a comment on code; otherwise `null`. */
  readonly path: string | null
  /** The line of the file when the comment was written, for a comment on code, if the host knows it. */
  readonly line: number | null
  /** Whether the host says that the changes no longer have the line. */
  readonly isOutdated?: boolean
}

/** The comment without its text, as in the interface. */
export const withoutText = (
  { isOutdated: _isOutdated, isWhole: _isWhole, line: _line, path: _path, text: _text, ...comment }: CommentWithText
): PullRequestComment => comment

/** A pull request with its checks and comments. `pending`: the host is still computing some of it. */
export interface PullRequestDetails {
  readonly pullRequest: PullRequest
  readonly checks: Checks
  /** Oldest first. */
  readonly comments: ReadonlyArray<CommentWithText>
  readonly pending: boolean
}

/** `publishing`: the first publication is under way; `updating`: a later one; `failed`: the last one failed. */
export const ActionState = Schema.Literals(["idle", "publishing", "updating", "failed"])
export type ActionState = typeof ActionState.Type

/** The state of publishing, and the pull request with its checks and comments. */
export const PullRequestStatus = Schema.Struct({
  actionState: ActionState.annotateKey({
    description: "`publishing`: the first publication is under way; `updating`: a later one; `failed`: the last one failed."
  }),
  checks: Checks.annotateKey({ description: "What runs on the head commit." }),
  comments: Schema.Array(PullRequestComment).annotateKey({ description: "Oldest first." }),
  pullRequest: Schema.NullOr(PullRequest).annotateKey({ description: "As the host has it; `null` before anything was published." }),
  repository: Schema.String.annotateKey({ description: "`owner/name`." }),
  detailsPending: Schema.Boolean.annotateKey({ description: "Whether some of it is not known yet: ask again in a moment." })
}).annotate({ identifier: "PullRequestStatus" })
export type PullRequestStatus = typeof PullRequestStatus.Type

/** The checks of a pull request without any. */
export const noChecks: Checks = { label: "No checks", runs: [], checkRuns: [], state: "idle" }

const isSandboxId = Schema.is(SandboxId)

/** The sandbox that publishes to a branch; `undefined` for other branches. */
export const sandboxOf = (branch: string): SandboxId | undefined => {
  if (!branch.startsWith(BRANCHES)) return undefined
  const id = branch.slice(BRANCHES.length).replace(/-\d{1,6}$/u, "")
  return isSandboxId(id) ? id : undefined
}

/** A pull request. `host` is the source host's name; `repo` is spelled as in its sandbox. */
export interface Pull {
  readonly host: string
  readonly repo: RepoName
  readonly number: number
}
