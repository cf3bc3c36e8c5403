/** Pull requests as the interface shows them (2.5). */
import { Schema } from "effect"
import { SandboxId } from "../sandbox/SandboxId.ts"
import { Counter } from "../Text.ts"
import { Timestamp } from "../Timestamp.ts"

/** A pull request as the host has it (interface 2.5). */
export const PullRequest = Schema.Struct({
  id: Counter,
  nodeId: Schema.String,
  number: Counter,
  url: Schema.String,
  title: Schema.String,
  /** `closed` with `merged: true` is a merged one. */
  state: Schema.Literals(["open", "closed"]),
  draft: Schema.Boolean,
  merged: Schema.Boolean,
  baseRef: Schema.String,
  headRef: Schema.String,
  headSha: Schema.String,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  additions: Counter,
  deletions: Counter,
  changedFiles: Counter
}).annotate({ identifier: "PullRequest" })
export type PullRequest = typeof PullRequest.Type

/** One workflow run. `conclusion` and `status` are the host's own words. */
export const WorkflowRun = Schema.Struct({
  id: Counter,
  name: Schema.String,
  conclusion: Schema.optionalKey(Schema.String),
  createdAt: Schema.String,
  event: Schema.String,
  headBranch: Schema.String,
  headSha: Schema.String,
  runNumber: Counter,
  status: Schema.String,
  updatedAt: Schema.String,
  url: Schema.String
}).annotate({ identifier: "WorkflowRun" })

/** One check run. Unfinished ones have neither `conclusion` nor `completedAt`. */
export const CheckRun = Schema.Struct({
  id: Counter,
  name: Schema.String,
  completedAt: Schema.optionalKey(Schema.String),
  conclusion: Schema.optionalKey(Schema.String),
  startedAt: Schema.optionalKey(Schema.String),
  status: Schema.String,
  url: Schema.String
}).annotate({ identifier: "CheckRun" })

/** What runs on the head commit. `idle`: nothing does. */
export const Checks = Schema.Struct({
  /** For display: "No checks", "2 of 3 checks passed". */
  label: Schema.String,
  runs: Schema.Array(WorkflowRun),
  checkRuns: Schema.Array(CheckRun),
  state: Schema.Literals(["idle", "pending", "success", "failure", "error"]),
  error: Schema.optionalKey(Schema.String),
  updatedAt: Schema.optionalKey(Schema.String)
}).annotate({ identifier: "Checks" })
export type Checks = typeof Checks.Type

/** A comment on the pull request or on its code; `title` names which. */
export const PullRequestComment = Schema.Struct({
  id: Counter,
  title: Schema.String,
  author: Schema.String,
  authorAvatarUrl: Schema.String,
  createdAt: Schema.String,
  updatedAt: Schema.String,
  url: Schema.String
}).annotate({ identifier: "PullRequestComment" })

/** What a source host tells of one pull request. `pending`: it is still computing some of it. */
export interface PullRequestDetails {
  readonly pullRequest: PullRequest
  readonly checks: Checks
  readonly comments: ReadonlyArray<typeof PullRequestComment.Type>
  readonly pending: boolean
}

/** `publishing`: the first publication is under way; `updating`: a later one; `failed`: the last one failed. */
export const ActionState = Schema.Literals(["idle", "publishing", "updating", "failed"])
export type ActionState = typeof ActionState.Type

/** How publishing stands, and the pull request with its checks and comments. */
export const PullRequestStatus = Schema.Struct({
  actionState: ActionState,
  checks: Checks,
  comments: Schema.Array(PullRequestComment),
  /** `null` before anything was published. */
  pullRequest: Schema.NullOr(PullRequest),
  repository: Schema.String,
  detailsPending: Schema.Boolean
}).annotate({ identifier: "PullRequestStatus" })
export type PullRequestStatus = typeof PullRequestStatus.Type

/** Of a pull request nothing runs on. */
export const noChecks: Checks = { label: "No checks", runs: [], checkRuns: [], state: "idle" }

const BRANCHES = "slipway/"

/** The branch a sandbox publishes to: one per sandbox, the same in each of its repositories. */
export const headRef = (sandboxId: string): string => `${BRANCHES}${sandboxId}`

const isSandboxId = Schema.is(SandboxId)

/** The sandbox that publishes to a branch, `undefined` when none of ours does. */
export const sandboxOf = (branch: string): SandboxId | undefined => {
  const id = branch.startsWith(BRANCHES) ? branch.slice(BRANCHES.length) : ""
  return isSandboxId(id) ? id : undefined
}
