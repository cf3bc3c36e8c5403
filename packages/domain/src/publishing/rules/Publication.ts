/** The events of a publication, and the commit and branch of the next one. */
import * as Context from "effect/Context"
import * as Result from "effect/Result"
import type { BranchMoved, FileNotFound, MergeConflict, MergeStep, NoChanges, PushFailed } from "../../files/ports/WorkingTrees.ts"
import { SandboxNotRunning } from "../../sandbox/rules/Command.ts"
import { continuedBranch, hasTrees, publicationOf, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { SandboxEvent, SandboxEventOf } from "../../sandbox/rules/SandboxEvent.ts"
import type { RepoNotAccessible, SourceHostError } from "../../source/ports/SourceHost.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import { headRef, isOwnBranch, roundOf } from "../../source/schema/Naming.ts"
import type { PullRequest } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { PullRequestNotWritable } from "../../source/schema/WritableBranch.ts"

/** Records a request to publish. It joins a running publication: both callers get its result. */
export const request = (sandbox: Sandbox, repo: RepoName): Result.Result<ReadonlyArray<SandboxEvent>, SandboxNotRunning> => {
  const known = publicationOf(sandbox, repo)
  if (isUnderWay(known)) return Result.succeed([])
  if (!hasTrees(sandbox)) return Result.fail(new SandboxNotRunning())
  return Result.succeed([{
    type: "pull_request.updated",
    data: {
      repo,
      action_state: (known?.number ?? null) === null ? "publishing" : "updating",
      head_ref: currentRound(sandbox, repo).headRef
    }
  }])
}

/** The content pushed for a pull request. */
export interface Pushed {
  readonly sha: string
  readonly merges: ReadonlyArray<MergeStep>
  /** As in the result of `WorkingTrees.snapshot`. */
  readonly submodules?: ReadonlyArray<string> | undefined
  /** As in the result of `WorkingTrees.snapshot`. */
  readonly lfs?: ReadonlyArray<string> | undefined
  /** As in the result of `WorkingTrees.snapshot`. */
  readonly lfsReason?: string | undefined
  /** Labels and reviewers that a new pull request does not have, because the host did not take them. */
  readonly leftOut?: ReadonlyArray<string> | undefined
}

/** The events after a push to a pull request. The next publication continues from them. */
export const published = (
  repo: RepoName,
  pullRequest: PullRequest,
  { leftOut = [], lfs, lfsReason, merges, sha, submodules }: Pushed
): SandboxEventOf<"pull_request.updated"> => {
  // The host may still tell of the commit before.
  const { data, type } = described(repo, { ...pullRequest, headSha: sha })
  return {
    type,
    data: {
      ...data,
      ...(merges.length === 0 ? {} : { merges }),
      ...(submodules === undefined ? {} : { submodules }),
      ...(lfs === undefined ? {} : { lfs_left_out: lfs }),
      ...(lfsReason === undefined ? {} : { lfs_reason: lfsReason }),
      ...(leftOut.length === 0 ? {} : { left_out: leftOut })
    }
  }
}

const described = (repo: RepoName, pullRequest: PullRequest): SandboxEventOf<"pull_request.updated"> => ({
  type: "pull_request.updated",
  data: {
    repo,
    action_state: "idle",
    number: pullRequest.number,
    url: pullRequest.url,
    state: pullRequest.state,
    draft: pullRequest.draft,
    merged: pullRequest.merged,
    head_ref: pullRequest.headRef,
    head_sha: pullRequest.headSha,
    pull_request: pullRequest
  }
})

/** The events for changes of the pull request since the last recorded state. Empty while a publication of it is running. */
export const observed = (sandbox: Sandbox, repo: RepoName, pullRequest: PullRequest): ReadonlyArray<SandboxEvent> => {
  const publication = publicationOf(sandbox, repo)
  if (publication === undefined || publication.number !== pullRequest.number || isUnderWay(publication)) return []
  const { actionState, draft, error, headSha, merged, state } = publication
  if (state === pullRequest.state && draft === pullRequest.draft && merged === pullRequest.merged && headSha === pullRequest.headSha) {
    return []
  }
  const { data } = described(repo, pullRequest)
  return [{ type: "pull_request.updated", data: { ...data, action_state: actionState, ...(error === null ? {} : { error }) } }]
}

type Trouble =
  | BranchMoved
  | FileNotFound
  | MergeConflict
  | NoChanges
  | PullRequestNotWritable
  | PushFailed
  | RepoNotAccessible
  | SourceHostError

/** The event for a failed publication. Its codes are those of docs/decisions/1. */
export const failure = (repo: RepoName, trouble: Trouble): SandboxEvent => {
  const told = (code: string) => ({ code, message: trouble.message })
  const [action_state, error] = trouble._tag === "NoChanges" ?
    ["idle" as const, told("invalid_request")]
    : trouble._tag === "RepoNotAccessible" ?
    ["failed" as const, told("repo_not_accessible")]
    : trouble._tag === "BranchMoved" ?
    ["failed" as const, told("branch_moved")]
    : trouble._tag === "PullRequestNotWritable" ?
    ["failed" as const, told("pull_request_not_writable")]
    : trouble._tag === "MergeConflict" ?
    ["failed" as const, told("merge_conflict")]
    : trouble._tag === "FileNotFound" ?
    ["failed" as const, { code: "agent_disconnected", message: "The sandbox's files are not available." }]
    : trouble._tag === "SourceHostError" && trouble.retryAfter !== undefined ?
    ["failed" as const, { ...told("unavailable"), retry_after: Math.max(0, trouble.retryAfter) }]
    : ["failed" as const, told("source_host_error")]
  return { type: "pull_request.updated", data: { repo, action_state, error } }
}

/** Name and address in git's form. */
export interface Author {
  readonly name: string
  readonly email: string
}
/** The author of published commits. A setting. */
export const CommitAuthor = Context.Reference<Author>("@slipway/domain/CommitAuthor", {
  defaultValue: () => ({ name: "Slipway", email: "slipway@localhost" })
})

/** The template of commit messages with `{title}`, `{sandbox}` and `{repo}`. A setting. */
export const CommitMessage = Context.Reference<string>("@slipway/domain/CommitMessage", { defaultValue: () => "{title}" })

/** The pull request that the next publication updates, or the data of a new one. */
export interface Round {
  readonly headRef: string
  /** The commit last recorded as pushed to it; `null`: no commit. */
  readonly pushed: string | null
  readonly merges: ReadonlyArray<MergeStep>
}

/**
 * The sandbox's present pull request, as far as it is recorded. Until its first push, a continued branch is to be at `baseSha`, the commit
 * that the tree started from.
 */
export const currentRound = (sandbox: Sandbox, repo: RepoName, baseSha: string | null = null): Round => {
  const pushed = publicationOf(sandbox, repo)?.pushed
  const continued = continuedBranch(sandbox, repo)
  return pushed === undefined
    ? continued === null
      ? { headRef: headRef(sandbox.id), pushed: null, merges: [] }
      : { headRef: continued.branch, pushed: baseSha, merges: [] }
    : { headRef: pushed.headRef, pushed: pushed.sha, merges: pushed.merges }
}

/**
 * The pull request after a merged or closed one, or after one whose branch was deleted. It has a new branch from the newest commit of
 * the base. After a merge, the merged content is common to the files and the base; after a closed one, the earlier common content.
 * `published`: the last commit of the pull request before. `onto`: the newest commit of the base. `skip`: branch names that are taken.
 */
export const nextRound = (
  sandbox: Sandbox,
  before: Round,
  { isMerged, onto, published, skip = 0 }: {
    readonly isMerged: boolean
    readonly onto: string
    readonly published: string | null
    readonly skip?: number
  }
): Round => ({
  // The first branch of its own comes after a continued one.
  headRef: headRef(sandbox.id, (isOwnBranch(sandbox.id, before.headRef) ? roundOf(before.headRef) : 0) + 1 + skip),
  pushed: null,
  merges: isMerged && published !== null
    ? [...before.merges, { onto, ancestor: published }]
    : [...before.merges.slice(0, -1), { onto, ancestor: before.merges.at(-1)?.ancestor ?? null }]
})

/** Fills in the template of a commit message. */
export const commitMessage = (template: string, sandbox: Pick<Sandbox, "id" | "title">, repo: RepoName): string => {
  const values = { title: sandbox.title, sandbox: sandbox.id, repo }
  // One pass: a title may contain braces itself.
  return template.replace(/\{(title|sandbox|repo)\}/gu, (_, name: keyof typeof values) => values[name])
}
