/** Carries out a requested publication: from a working tree to one draft pull request. */
import { BranchMoved, OnBehalfOf, type SnapshotOptions, type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import {
  CommitAuthor,
  commitMessage,
  CommitMessage,
  currentRound,
  failure,
  nextRound,
  published,
  type Round
} from "@slipway/domain/publishing/rules/Publication"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import { OpenedPull } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { count } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { type Remote, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Result } from "effect"

/** How many branch names may be taken by others before the publication fails. */
const MAX_SKIPPED = 20
/** The git process of a killed worker may push in between, once. */
const ATTEMPTS = 3

/** One publication. */
interface Publication {
  readonly sandbox: Sandbox
  readonly repo: RepoName
  readonly key: TreeKey
  readonly remote: Remote
  readonly author: SnapshotOptions["author"]
  readonly history: SnapshotOptions["history"]
}

/** The open pull request, or the last one; `null`: there never was a pull request. */
const pullRequestOf = Effect.fnUntraced(function*({ repo, sandbox }: Publication, { headRef }: Round) {
  const host = yield* SourceHost
  const open = yield* host.findOpenPullRequest(repo, headRef)
  if (open !== null) return open
  const number = publicationOf(sandbox, repo)?.number ?? null
  return number === null ? null : (yield* host.pullRequestDetails(repo, number)).pullRequest
})

/** Branches that a new pull request may be merged into, the best first. */
const basesOf = Effect.fnUntraced(function*({ repo, sandbox }: Publication, before: PullRequest | null) {
  const { defaultBranch } = yield* SourceHost.use((host) => host.repository(repo))
  const asked = sandbox.repos.find(({ fullName }) => sameRepo(fullName, repo))?.ref
  return [...new Set([before?.baseRef, asked, defaultBranch].flatMap((branch) => branch === undefined ? [] : [branch]))]
})

const lookFor = ({ author, history, key, remote }: Publication, { headRef, pushed }: Round, branches: ReadonlyArray<string>) =>
  WorkingTrees.use((trees) =>
    trees.branches(key, { remote, headRef, pushed, branches, author, ...(history === undefined ? {} : { history }) })
  )

/** The base of a new pull request. Without a base nothing is pushed. */
const baseIn = ({ repo }: Publication, bases: ReadonlyArray<string>, tips: ReadonlyMap<string, string>) => {
  const name = bases.find((branch) => tips.has(branch))
  const onto = name === undefined ? undefined : tips.get(name)
  return name === undefined || onto === undefined
    ? Effect.fail(
      new SourceHostError({
        operation: "open the pull request",
        detail: `There is no branch ${bases.map((base) => `"${base}"`).join(" or ")} in ${repo} to merge into.`,
        retryable: false
      })
    )
    : Effect.succeed({ name, onto })
}

/** The next push. `head`: the commit that the branch has now. `base`: the base branch of a new pull request. */
interface Plan {
  readonly round: Round
  readonly head: string | null
  readonly base: string | null
  readonly open: PullRequest | null
}

/** A branch of its own, from the newest commit of the base. */
const planNext = Effect.fnUntraced(function*(publication: Publication, before: Round, ended: PullRequest | null) {
  const { repo, sandbox } = publication
  const published = before.pushed ?? publicationOf(sandbox, repo)?.headSha ?? null
  const bases = yield* basesOf(publication, ended)
  const isMerged = ended?.merged === true
  for (let skip = 0; skip < MAX_SKIPPED; skip++) {
    const asked = nextRound(sandbox, before, { isMerged, onto: "", published, skip })
    const found = yield* lookFor(publication, asked, bases).pipe(Effect.catchTag("BranchMoved", () => Effect.succeed(null)))
    if (found === null || found.isGone) continue
    const { name, onto } = yield* baseIn(publication, bases, found.tips)
    // Commits of the branch were pushed by a worker that could not record it.
    const round = nextRound(sandbox, before, { isMerged, onto: found.root ?? onto, published, skip })
    const plan: Plan = { round, head: found.head, base: name, open: null }
    return plan
  }
  return yield* new BranchMoved({ repo, branch: before.headRef })
})

/** The plan by the present state of the host and the tree (docs/decisions/7). */
const planOf = Effect.fnUntraced(function*(publication: Publication) {
  const round = currentRound(publication.sandbox, publication.repo)
  const pull = yield* pullRequestOf(publication, round)
  if (pull !== null && pull.state === "closed") return yield* planNext(publication, round, pull)
  const bases = pull === null ? yield* basesOf(publication, null) : []
  const found = yield* lookFor(publication, round, bases)
  if (found.isGone) return yield* planNext(publication, round, pull)
  const base = pull === null ? (yield* baseIn(publication, bases, found.tips)).name : null
  const plan: Plan = { round, head: found.head, base, open: pull }
  return plan
})

const commitOf = Effect.fnUntraced(function*({ author, history, key, remote, repo, sandbox }: Publication, { head, round }: Plan) {
  const trees = yield* WorkingTrees
  return yield* trees.snapshot(key, {
    message: commitMessage(yield* CommitMessage, sandbox, repo),
    author,
    since: { head, merges: round.merges, remote },
    ...(history === undefined ? {} : { history })
  })
})

/** Pushes. Returns the plan with the pushed commit. */
const pushed = Effect.fnUntraced(function*(publication: Publication) {
  const trees = yield* WorkingTrees
  const { key, remote, sandbox } = publication
  const attempt = Effect.gen(function*() {
    const plan = yield* planOf(publication)
    const { sha, submodules } = yield* commitOf(publication, plan).pipe(
      Effect.provideService(OnBehalfOf, sandbox.grantId),
      Effect.withSpan("publication snapshot")
    )
    const { head, round: { headRef, merges } } = plan
    const push = trees.push(key, { sha, headRef, remote, expected: head, isMerged: merges.length > 0 })
    const isDone = yield* Effect.withSpan(push, "publication push").pipe(
      Effect.as(true),
      Effect.catchTag("BranchMoved", () => Effect.succeed(false))
    )
    return { ...plan, sha, submodules, isDone }
  })
  for (let attempts = 1;; attempts++) {
    const result = yield* attempt
    if (result.isDone) return result
    if (attempts === ATTEMPTS) return yield* new BranchMoved({ repo: publication.repo, branch: result.round.headRef })
  }
})

const pushAndOpen = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName, history: SnapshotOptions["history"]) {
  const host = yield* SourceHost
  const publication: Publication = {
    sandbox,
    repo,
    key: { sandboxId: sandbox.id, repo },
    remote: yield* host.remote(repo, "write"),
    author: yield* CommitAuthor,
    history
  }
  const { base, open: before, round: { headRef, merges }, sha, submodules } = yield* pushed(publication)
  const at = yield* DateTime.now
  // Looked up before it is opened: a crash after opening must not open a second one.
  const open = before ?? (yield* host.findOpenPullRequest(repo, headRef))
  const found = open !== null
    ? host.pullRequestPushed(repo, open.number, { headSha: sha, at })
    : host.openDraftPullRequest(repo, {
      title: sandbox.title,
      body: `Opened by Slipway from sandbox ${sandbox.id}.`,
      baseRef: base ?? (yield* host.repository(repo)).defaultBranch,
      headRef,
      headSha: sha,
      at
    })
  return { pullRequest: yield* Effect.withSpan(found, "publication pull request"), sha, merges, submodules }
})

/**
 * Snapshot, push, find or open the draft, record. Safe to run again after a crash at any point. An error of the publication is
 * recorded; the effect does not fail with it. `history`: the agent's own commits.
 */
export const publishChanges = Effect.fn("publication")(
  function*(lease: Lease, sandbox: Sandbox, repo: RepoName, history?: SnapshotOptions["history"]) {
    const store = yield* SandboxStore
    const host = yield* SourceHost
    const { event, opened } = yield* Effect.match(pushAndOpen(sandbox, repo, history), {
      onSuccess: ({ pullRequest, ...rest }) => ({
        event: published(repo, pullRequest, rest),
        opened: { host: host.name, repo, number: pullRequest.number }
      }),
      onFailure: (trouble) => ({ event: failure(repo, trouble), opened: null })
    })
    const change = store.change(
      sandbox.id,
      lease,
      // A publication that ended in the meantime is not reported twice.
      (current) => Result.succeed(isUnderWay(publicationOf(current, repo)) ? [event] : []),
      yield* DateTime.now
    ).pipe(Effect.provideService(OpenedPull, opened))
    return (yield* Effect.tap(change, count)).sandbox
  }
)
