/** Carries out a requested publication: from a working tree to one draft pull request. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import {
  BranchMoved,
  NoChanges,
  OnBehalfOf,
  PushFailed,
  type SnapshotOptions,
  type TreeKey,
  WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
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
import { coAuthorTrailer, PublicAddress, pullRequestBody } from "@slipway/domain/publishing/rules/PullRequestText"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import { OpenedPull } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { continuedBranch, publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { count } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import { type Remote, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { DEFAULT_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { NO_SETTINGS, type RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import { branchProblem, PullRequestNotWritable } from "@slipway/domain/source/schema/WritableBranch"
import { DateTime, Effect, Option, Result } from "effect"
import { findSubmodule } from "../shared/FindSubmodule.ts"
import { untilAvailable } from "../shared/LeasedSandbox.ts"

/** How many branch names may be taken by others before the publication fails. */
const MAX_SKIPPED = 20
/** The git process of a killed worker may push in between, once. */
const ATTEMPTS = 3

/** The data of the service's own stores for a publication. */
interface Told {
  readonly settings: RepoSettings
  /** The sandbox's creator, if the settings ask for a line that names them. */
  readonly coAuthor: Parameters<typeof coAuthorTrailer>[0] | null
  /** The agent's newest text; empty: none. */
  readonly message: string
}

/** One publication. */
interface Publication {
  readonly sandbox: Sandbox
  /** The commit that the tree started from; `null`: it continues no branch. */
  readonly baseSha: string | null
  readonly repo: RepoName
  readonly key: TreeKey
  readonly remote: Remote
  readonly author: SnapshotOptions["author"]
  readonly history: SnapshotOptions["history"]
  readonly told: Told
  /** The line that names the sandbox's creator; `null`: none. */
  readonly trailer: string | null
}

/** The open pull request, or the last one; `null`: there never was a pull request. */
const pullRequestOf = Effect.fnUntraced(function*({ repo, sandbox }: Publication, { headRef }: Round) {
  const host = yield* SourceHost
  const open = yield* host.findOpenPullRequest(repo, headRef)
  if (open !== null) return open
  const number = publicationOf(sandbox, repo)?.number ?? continuedBranch(sandbox, repo)?.pullRequest ?? null
  return number === null ? null : (yield* host.pullRequestDetails(repo, number)).pullRequest
})

/** Branches that a new pull request may be merged into, the best first. */
const basesOf = Effect.fnUntraced(function*({ repo, sandbox }: Publication, before: PullRequest | null) {
  const { defaultBranch } = yield* SourceHost.use((host) => host.repository(repo))
  // A continued branch is not merged into itself.
  const isContinued = continuedBranch(sandbox, repo) !== null
  const asked = isContinued ? undefined : sandbox.repos.find(({ fullName }) => sameRepo(fullName, repo))?.ref
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

/** The branch that it continues may have been protected, and the rules of its grant changed, since it was created (docs/decisions/24). */
const checkContinued = Effect.fnUntraced(function*({ repo, sandbox }: Publication, { headRef }: Round) {
  if (continuedBranch(sandbox, repo)?.branch !== headRef) return
  const host = yield* SourceHost
  const access = Option.getOrUndefined(yield* Effect.serviceOption(AccessStore))
  const rules = access === undefined ? DEFAULT_BRANCH_RULES : yield* untilAvailable(access.branchRules(sandbox.grantId))
  const [{ defaultBranch }, state] = yield* Effect.all([host.repository(repo), host.branch(repo, headRef)], { concurrency: 2 })
  // A branch that was deleted is followed by one of its own.
  if (state === null) return
  const reason = branchProblem({ repo, branch: headRef, defaultBranch, state, rules })
  if (reason !== null) return yield* new PullRequestNotWritable({ reason })
})

/** The plan by the present state of the host and the tree (docs/decisions/7). */
const planOf = Effect.fnUntraced(function*(publication: Publication) {
  const { baseSha, repo, sandbox } = publication
  const round = currentRound(sandbox, repo, baseSha)
  const pull = yield* pullRequestOf(publication, round)
  if (pull !== null && pull.state === "closed") return yield* planNext(publication, round, pull)
  yield* checkContinued(publication, round)
  const bases = pull === null ? yield* basesOf(publication, null) : []
  const found = yield* lookFor(publication, round, bases)
  if (found.isGone) return yield* planNext(publication, round, pull)
  const base = pull === null ? (yield* baseIn(publication, bases, found.tips)).name : null
  const plan: Plan = { round, head: found.head, base, open: pull }
  return plan
})

const commitOf = Effect.fnUntraced(function*(publication: Publication, { head, round }: Plan) {
  const { author, history, key, remote, repo, sandbox, trailer } = publication
  const trees = yield* WorkingTrees
  return yield* trees.snapshot(key, {
    message: commitMessage(yield* CommitMessage, sandbox, repo),
    author,
    ...(trailer === null ? {} : { trailer }),
    since: { head, merges: round.merges, remote },
    submodule: yield* findSubmodule(publication.sandbox.repos),
    ...(history === undefined ? {} : { history })
  })
})

/** Pushes. Returns the plan with the pushed commit. */
const pushed = Effect.fnUntraced(function*(publication: Publication) {
  const trees = yield* WorkingTrees
  const { key, remote, sandbox } = publication
  const attempt = Effect.gen(function*() {
    const plan = yield* planOf(publication)
    const { lfs, lfsReason, sha, subjects, submodules } = yield* commitOf(publication, plan).pipe(
      Effect.provideService(OnBehalfOf, sandbox.grantId),
      Effect.withSpan("publication snapshot")
    )
    // The head of a continued branch is not the sandbox's.
    if (sha === publication.baseSha) return yield* new NoChanges({ repo: publication.repo })
    const { head, round: { headRef, merges } } = plan
    const push = trees.push(key, { sha, headRef, remote, expected: head, isMerged: merges.length > 0 })
    const isDone = yield* Effect.withSpan(push, "publication push").pipe(
      Effect.as(true),
      Effect.catchTag("BranchMoved", () => Effect.succeed(false))
    )
    return { ...plan, sha, subjects, submodules, lfs, lfsReason, isDone }
  })
  for (let attempts = 1;; attempts++) {
    const result = yield* attempt
    if (result.isDone) return result
    if (attempts === ATTEMPTS) return yield* new BranchMoved({ repo: publication.repo, branch: result.round.headRef })
  }
})

/** The newest events of a sandbox among which the agent's last message is looked for. */
const SEARCHED = 500
const PAGE = 100

/** The agent's newest message; empty: the newest events have none. */
const lastMessage = Effect.fnUntraced(function*({ id, lastSeq }: Sandbox) {
  const store = yield* SandboxStore
  let text = ""
  for (let after = Math.max(0, lastSeq - SEARCHED);;) {
    const page = yield* store.messages(id, after, PAGE)
    text = page.findLast(({ role }) => role === "assistant")?.text ?? text
    const last = page.at(-1)
    if (last === undefined) return text
    after = last.seq
  }
})

/** An embedder may have no settings, and no members. */
const toldOf = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName) {
  const { createdBy, grantId } = sandbox
  const store = Option.getOrNull(yield* Effect.serviceOption(RepositorySettings))
  const settings = store === null ? NO_SETTINGS : yield* store.of({ grantId, repo })
  const members = settings.coAuthor ? Option.getOrNull(yield* Effect.serviceOption(MemberStore)) : null
  const coAuthor = members === null ? null : yield* members.findUser({ _tag: "Id", id: createdBy })
  const told: Told = { settings, coAuthor, message: yield* lastMessage(sandbox) }
  return told
})

/** Labels and reviewers of a new pull request. People may change them, so later publications leave them alone. */
const decorate = Effect.fnUntraced(function*({ repo, sandbox, told }: Publication, { number }: PullRequest) {
  const { labels, reviewers } = told.settings
  const isRecorded = publicationOf(sandbox, repo)?.number === number
  if (isRecorded || labels.length + reviewers.length === 0) return []
  const host = yield* SourceHost
  return yield* Effect.catch(host.decoratePullRequest(repo, number, { labels, reviewers }), (error) =>
    // The pull request is open: it is published without them.
    Effect.as(
      Effect.logWarning("the source host did not take labels and reviewers", { repo, number, reason: error.message }),
      [...labels, ...reviewers]
    ))
})

const pushAndOpen = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName, history: SnapshotOptions["history"], told: Told) {
  const host = yield* SourceHost
  const key = { sandboxId: sandbox.id, repo }
  const name = yield* host.nameOf(repo)
  const remote = yield* host.remote(repo, "write")
  const started = WorkingTrees.use((trees) => trees.findBaseRef(key, { remote, refs: [] })).pipe(
    Effect.map(({ baseSha }) => baseSha),
    Effect.catchTag(
      ["CloneFailed", "TreesUnavailable"],
      ({ detail, retryable }) => Effect.fail(new PushFailed({ repo, detail, retryable }))
    )
  )
  const baseSha = continuedBranch(sandbox, repo) === null ? null : yield* started
  const publication: Publication = {
    sandbox,
    baseSha,
    repo,
    key,
    remote,
    author: yield* CommitAuthor,
    history,
    told,
    trailer: told.coAuthor === null ? null : coAuthorTrailer(told.coAuthor, name)
  }
  const { base, lfs, lfsReason, open: before, round: { headRef, merges }, sha, subjects, submodules } = yield* pushed(publication)
  const at = yield* DateTime.now
  // Looked up before it is opened: a crash after opening must not open a second one.
  const open = before ?? (yield* host.findOpenPullRequest(repo, headRef))
  const found = open !== null
    ? host.pullRequestPushed(repo, open.number, { headSha: sha, at })
    : host.openDraftPullRequest(repo, {
      title: sandbox.title,
      body: pullRequestBody({ sandboxId: sandbox.id, address: yield* PublicAddress, message: told.message, commits: subjects ?? [] }),
      baseRef: base ?? (yield* host.repository(repo)).defaultBranch,
      headRef,
      headSha: sha,
      at
    })
  const pullRequest = yield* Effect.withSpan(found, "publication pull request")
  // A continued pull request was there before the sandbox.
  const isOpened = continuedBranch(sandbox, repo)?.pullRequest !== pullRequest.number
  const opened = isOpened ? { host: name, repo, number: pullRequest.number } : null
  return { pullRequest, opened, sha, merges, submodules, lfs, lfsReason, leftOut: yield* decorate(publication, pullRequest) }
})

/**
 * Snapshot, push, find or open the draft, record. Safe to run again after a crash at any point. An error of the publication is
 * recorded; the effect does not fail with it. `history`: the agent's own commits.
 */
export const publishChanges = Effect.fn("publication")(
  function*(lease: Lease, sandbox: Sandbox, repo: RepoName, history?: SnapshotOptions["history"]) {
    const store = yield* SandboxStore
    const { event, opened } = yield* Effect.match(pushAndOpen(sandbox, repo, history, yield* toldOf(sandbox, repo)), {
      onSuccess: ({ opened, pullRequest, ...rest }) => ({ event: published(repo, pullRequest, rest), opened }),
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
