/** What a sandbox's log says of a publication, and what is recorded of one. */
import * as Context from "effect/Context"
import * as Result from "effect/Result"
import type { BranchMoved, FileNotFound, MergeConflict, MergeStep, NoChanges, PushFailed } from "../../files/ports/WorkingTrees.ts"
import { SandboxNotRunning } from "../../sandbox/rules/Command.ts"
import { hasTrees, isUnderWay, publicationOf, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { SandboxEvent, SandboxEventOf } from "../../sandbox/rules/SandboxEvent.ts"
import type { RepoNotAccessible, SourceHostError } from "../../source/ports/SourceHost.ts"
import { headRef, roundOf } from "../../source/schema/Naming.ts"
import type { PullRequest } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"

/** Records the wish to publish. One that is under way is joined: both callers get its result. */
export const request = (sandbox: Sandbox, repo: RepoName): Result.Result<ReadonlyArray<SandboxEvent>, SandboxNotRunning> => {
  const known = publicationOf(sandbox, repo)
  if (isUnderWay(known)) return Result.succeed([])
  if (!hasTrees(sandbox)) return Result.fail(new SandboxNotRunning())
  return Result.succeed([{
    type: "pull_request.updated",
    data: {
      repo,
      action_state: (known?.number ?? null) === null ? "publishing" : "updating",
      head_ref: known?.pushed?.headRef ?? headRef(sandbox.id)
    }
  }])
}

/** What was pushed for a pull request. */
export interface Pushed {
  readonly sha: string
  readonly merges: ReadonlyArray<MergeStep>
  /** As `WorkingTrees.snapshot` tells. */
  readonly submodules?: ReadonlyArray<string> | undefined
}

/** What the event log says of a pull request that was pushed to. The next publication goes on from what it says. */
export const published = (
  repo: RepoName,
  pullRequest: PullRequest,
  { merges, sha, submodules }: Pushed
): SandboxEventOf<"pull_request.updated"> => {
  const { data, type } = described(repo, pullRequest)
  return {
    type,
    data: { ...data, head_sha: sha, ...(merges.length === 0 ? {} : { merges }), ...(submodules === undefined ? {} : { submodules }) }
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
    head_sha: pullRequest.headSha
  }
})

/** What happened to the pull request since the log last told of it: nothing, while it is published to. */
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

type Trouble = BranchMoved | FileNotFound | MergeConflict | NoChanges | PushFailed | RepoNotAccessible | SourceHostError

/** How a publication that did not go through is told; the code is the one of docs/decisions/1. */
export const failure = (repo: RepoName, trouble: Trouble): SandboxEvent => {
  const told = (code: string) => ({ code, message: trouble.message })
  const [action_state, error] = trouble._tag === "NoChanges" ?
    ["idle" as const, told("invalid_request")]
    : trouble._tag === "RepoNotAccessible" ?
    ["failed" as const, told("repo_not_accessible")]
    : trouble._tag === "BranchMoved" ?
    ["failed" as const, told("branch_moved")]
    : trouble._tag === "MergeConflict" ?
    ["failed" as const, told("merge_conflict")]
    : trouble._tag === "FileNotFound" ?
    ["failed" as const, { code: "agent_disconnected", message: "The sandbox's files are not available." }]
    : trouble._tag === "SourceHostError" && trouble.retryAfter !== undefined ?
    ["failed" as const, { ...told("unavailable"), retry_after: Math.max(0, trouble.retryAfter) }]
    : ["failed" as const, told("source_host_error")]
  return { type: "pull_request.updated", data: { repo, action_state, error } }
}

/** Name and address as git writes them. */
export interface Author {
  readonly name: string
  readonly email: string
}
/** Who commits what is published. Configuration. */
export const CommitAuthor = Context.Reference<Author>("@slipway/domain/CommitAuthor", {
  defaultValue: () => ({ name: "Slipway", email: "slipway@localhost" })
})

/** What a commit says: `{title}`, `{sandbox}` and `{repo}` stand for what they name, anything else for itself. Configuration. */
export const CommitMessage = Context.Reference<string>("@slipway/domain/CommitMessage", { defaultValue: () => "{title}" })

/** How a pull request goes on that was published to before, or what a new one is made of. */
export interface Round {
  readonly headRef: string
  /** The commit that is recorded as pushed to it last; `null`: none is. */
  readonly pushed: string | null
  readonly merges: ReadonlyArray<MergeStep>
}

/** The pull request that the sandbox publishes to, as far as it is recorded. */
export const currentRound = (sandbox: Sandbox, repo: RepoName): Round => {
  const pushed = publicationOf(sandbox, repo)?.pushed
  return pushed === undefined
    ? { headRef: headRef(sandbox.id), pushed: null, merges: [] }
    : { headRef: pushed.headRef, pushed: pushed.sha, merges: pushed.merges }
}

/**
 * The pull request after one that was merged or closed, or whose branch is gone: on a branch of its own, from the newest commit of the
 * base. What was merged counts as common to the files and the base; after one that was closed, what was common before.
 * `published`: what was pushed to the one before; `onto`: the newest commit of the base. `skip`: branches that somebody else has.
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
  headRef: headRef(sandbox.id, roundOf(before.headRef) + 1 + skip),
  pushed: null,
  merges: isMerged && published !== null
    ? [...before.merges, { onto, ancestor: published }]
    : [...before.merges.slice(0, -1), { onto, ancestor: before.merges.at(-1)?.ancestor ?? null }]
})

export const commitMessage = (template: string, sandbox: Pick<Sandbox, "id" | "title">, repo: RepoName): string => {
  const values = { title: sandbox.title, sandbox: sandbox.id, repo }
  // In one pass: a title may have braces of its own.
  return template.replace(/\{(title|sandbox|repo)\}/gu, (_, name: keyof typeof values) => values[name])
}
