/** Whether a sandbox may continue a branch or a pull request (docs/decisions/24). */
import * as Schema from "effect/Schema"
import { visible } from "../../text/EscapeInvisible.ts"
import { type BranchRule, mayPush } from "./BranchRules.ts"
import { sameRepo } from "./Naming.ts"
import type { PullRequest } from "./PullRequest.ts"
import type { RepoName } from "./RepoRef.ts"

/** The pull request or branch cannot be continued. Nothing was pushed. A retry helps once the reason is gone. */
export class PullRequestNotWritable extends Schema.TaggedError<PullRequestNotWritable>()("PullRequestNotWritable", {
  /** A sentence for people. */
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}

/** A branch as its host has it now. */
export interface BranchState {
  /** The newest commit. */
  readonly headSha: string
  /** Rules of the host protect it from pushes. */
  readonly isProtected: boolean
}

/** The facts that decide. */
export interface BranchFacts {
  readonly repo: RepoName
  readonly branch: string
  readonly defaultBranch: string
  /** `null`: there is no such branch. */
  readonly state: BranchState | null
  /** The rules of the grant. */
  readonly rules: ReadonlyArray<BranchRule>
}

/** Why a sandbox may not push to the branch; `null`: it may. */
export const branchProblem = ({ branch, defaultBranch, repo, rules, state }: BranchFacts): string | null => {
  const name = visible(branch)
  if (branch === defaultBranch) return `${name} is the default branch of ${repo}. Publish to another branch.`
  if (!mayPush(rules, branch)) {
    return `The access grant may not push to ${name}. An operator can allow it: slipway grants branches.`
  }
  if (state === null) return `${repo} has no branch ${name}. Push it, or continue another one.`
  if (state.isProtected) return `${name} is a protected branch of ${repo}. Publish to another branch.`
  return null
}

/** A pull request, and the repository that its branch is in; `null`: that repository was deleted. */
export interface PullRequestSource {
  readonly pullRequest: PullRequest
  readonly headRepo: RepoName | null
}

/** Why the pull request cannot be continued, whatever its branch is; `null`: it can be. */
export const pullRequestProblem = (repo: RepoName, number: number, found: PullRequestSource | null): string | null => {
  if (found === null) return `${repo} has no pull request #${number}.`
  const { headRepo, pullRequest: { merged, state } } = found
  if (merged) return `Pull request #${number} of ${repo} is merged. Continue an open one, or start from its base.`
  if (state === "closed") return `Pull request #${number} of ${repo} is closed. Open it again, or continue another one.`
  if (headRepo === null || !sameRepo(headRepo, repo)) {
    return `Pull request #${number} of ${repo} comes from another repository, a fork, which the service does not push to.`
  }
  return null
}
