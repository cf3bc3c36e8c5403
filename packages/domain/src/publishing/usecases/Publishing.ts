/**
 * Publishes a sandbox's changes as a draft pull request (docs/decisions/7). The request is recorded, the worker with the lease executes
 * it, and both sides read the outcome from the sandbox.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Principal } from "../../access/schema/Principal.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { type SandboxNotFound, SandboxStore } from "../../sandbox/ports/SandboxStore.ts"
import { SandboxNotRunning } from "../../sandbox/rules/Command.ts"
import { hasTrees, publicationOf, type Publication, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { type RepoNotFound, type RepoRequired, selectRepo } from "../../sandbox/rules/SelectRepo.ts"
import { RepoNotAccessible, SourceHost, SourceHostError } from "../../source/ports/SourceHost.ts"
import { isUnderWay } from "../../source/rules/PullState.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import {
  type CommentWithText,
  noChecks,
  type PullRequest,
  type PullRequestStatus,
  sandboxOf,
  withoutText
} from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { PullRequestNotWritable } from "../../source/schema/WritableBranch.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { observed, request } from "../rules/Publication.ts"

/** The working tree has nothing to publish. */
export class NothingToPublish extends Schema.TaggedError<NothingToPublish>()("NothingToPublish", {}) {
  override get message() {
    return "no sandbox changes to publish"
  }
}

/** Another person or program moved the branch of the publication. Nothing was pushed. The message says what to do. */
export class BranchMoved extends Schema.TaggedError<BranchMoved>()("BranchMoved", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}
/** The sandbox's changes conflict with its base branch. Nothing was pushed. The message names the files and says what to do. */
export class MergeConflict extends Schema.TaggedError<MergeConflict>()("MergeConflict", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** How long a request waits for its publication before it answers that the publication is running (docs/decisions/7). */
export const WAIT = Duration.seconds(20)

/** A status whose `comments` also have their texts. */
export interface StatusWithComments {
  readonly status: PullRequestStatus
  readonly comments: ReadonlyArray<CommentWithText>
}

interface Dependencies {
  readonly store: SandboxStore["Service"]
  readonly host: SourceHost["Service"]
}

/** Records changes of the pull request. Decides again under the sandbox's lock, because another process may have recorded them. */
const tell = Effect.fnUntraced(
  function*({ store }: Dependencies, sandbox: Sandbox, repo: RepoName, pullRequest: PullRequest) {
    if (observed(sandbox, repo, pullRequest).length === 0) return
    yield* store.change(sandbox.id, "policy", (current) => Result.succeed(observed(current, repo, pullRequest)), yield* DateTime.now)
  },
  Effect.catchTag("SandboxNotFound", () => Effect.void),
  Effect.catchTag("StaleLease", Effect.die)
)

/**
 * The sandbox's name for the repository that the host now calls `named`; `null`: the sandbox does not have it. The host is asked only
 * about repositories with pull requests, in case one was renamed.
 */
const presentRepo = Effect.fnUntraced(function*({ host }: Dependencies, sandbox: Sandbox, named: RepoName) {
  const same = selectRepo(sandbox, named)
  if (Result.isSuccess(same)) return same.success
  for (const { fullName } of sandbox.repos) {
    if ((publicationOf(sandbox, fullName)?.number ?? null) === null) continue
    const present = yield* Effect.result(host.repository(fullName))
    if (Result.isSuccess(present) && sameRepo(present.success.fullName, named)) return fullName
  }
  return null
})

const describe = Effect.fnUntraced(function*(deps: Dependencies, sandbox: Sandbox, repo: RepoName) {
  const publication = publicationOf(sandbox, repo)
  const number = publication?.number ?? null
  const details = number === null ? null : yield* deps.host.pullRequestDetails(repo, number)
  if (details !== null) yield* tell(deps, sandbox, repo, details.pullRequest)
  const comments = details?.comments ?? []
  const status: PullRequestStatus = {
    actionState: publication?.actionState ?? "idle",
    checks: details?.checks ?? noChecks,
    comments: comments.map(withoutText),
    pullRequest: details?.pullRequest ?? null,
    repository: repo,
    detailsPending: isUnderWay(publication) || details?.pending === true
  }
  const found: StatusWithComments = { status, comments }
  return found
})

const statusOf = (deps: Dependencies, sandbox: Sandbox, repo: RepoName) => Effect.map(describe(deps, sandbox, repo), ({ status }) => status)

/** The status as the worker has just recorded it. It knows neither checks nor comments: `status` asks the host for them. */
const recorded = ({ actionState }: Publication, pullRequest: PullRequest, repository: RepoName): PullRequestStatus => ({
  actionState,
  checks: noChecks,
  comments: [],
  pullRequest,
  repository,
  detailsPending: true
})

/** Fails with the error of a failed publication. */
const refuse = ({ error, repo }: Publication) => {
  if (error === null) return Effect.void
  switch (error.code) {
    case "invalid_request":
      return Effect.fail(new NothingToPublish())
    case "branch_moved":
      return Effect.fail(new BranchMoved({ detail: error.message }))
    case "merge_conflict":
      return Effect.fail(new MergeConflict({ detail: error.message }))
    case "pull_request_not_writable":
      return Effect.fail(new PullRequestNotWritable({ reason: error.message }))
    case "repo_not_accessible":
      return Effect.fail(new RepoNotAccessible({ repo }))
    default:
      return Effect.fail(
        new SourceHostError({
          operation: "publish",
          detail: error.message,
          retryable: true,
          ...(error.retry_after === undefined ? {} : { retryAfter: error.retry_after })
        })
      )
  }
}

/** The publication whose draft can end: it succeeded, or had nothing to push, and its pull request is not known to have ended. */
const openOf = (publication: Publication | undefined) => {
  if (publication === undefined || publication.number === null || publication.state === "closed") return null
  if (publication.error !== null && publication.error.code !== "invalid_request") return null
  return { publication, number: publication.number }
}

/** Publishes a working tree to one draft pull request. Every step is safe to repeat. */
export class Publishing extends Context.Service<Publishing, {
  /**
   * Requests a publication and waits up to {@link WAIT} for its end. The answer is what the worker recorded, without checks and comments.
   * Safe to repeat: there is one open pull request, and published content is not pushed again. `ready`: ends the draft afterwards, also
   * where there was nothing to publish; not if the publication is still running.
   */
  publish(by: Principal, id: SandboxId, repo: RepoName | undefined, options?: { readonly ready?: boolean | undefined }): Effect.Effect<
    PullRequestStatus,
    | BranchMoved
    | MergeConflict
    | NothingToPublish
    | PullRequestNotWritable
    | RepoNotAccessible
    | RepoNotFound
    | RepoRequired
    | SandboxNotFound
    | SandboxNotRunning
    | SourceHostError
    | StoreUnavailable
  >
  /** The state of the pull request at the source host now. Changes are recorded as events. */
  status(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<
    PullRequestStatus,
    RepoNotAccessible | RepoNotFound | RepoRequired | SandboxNotFound | SourceHostError | StoreUnavailable
  >
  /** Like `status`, with the texts of the comments. */
  statusWithComments(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<
    StatusWithComments,
    RepoNotAccessible | RepoNotFound | RepoRequired | SandboxNotFound | SourceHostError | StoreUnavailable
  >
  /**
   * Handles an event of the source host about a branch: asks for the pull requests of the sandboxes that publish to it, and records the
   * changes. Unknown branches are ignored.
   */
  follow(repo: RepoName, branch: string): Effect.Effect<void, RepoNotAccessible | SourceHostError | StoreUnavailable>
}>()("@slipway/domain/Publishing") {
  static readonly layer = Layer.effect(
    Publishing,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const host = yield* SourceHost
      const hints = yield* Hints
      const deps = { store, host }

      return Publishing.of({
        follow: Effect.fn("Publishing.follow")(
          function*(named, branch) {
            const found: Array<Sandbox> = []
            for (const publisher of yield* store.publishers(named, branch)) {
              const sandbox = yield* store.find(publisher).pipe(Effect.catchTag("SandboxNotFound", () => Effect.succeed(null)))
              if (sandbox !== null) found.push(sandbox)
            }
            const own = sandboxOf(branch)
            // A sandbox of a repository that was renamed since has its earlier name.
            if (own !== undefined && !found.some(({ id }) => id === own)) {
              const now = yield* DateTime.now
              const known = yield* store.change(own, "policy", () => Result.succeed([]), now).pipe(
                Effect.catchTag("SandboxNotFound", () => Effect.succeed(null))
              )
              if (known !== null) found.push(known.sandbox)
            }
            // Pull requests that several sandboxes publish to are read once.
            const read = new Map<number, PullRequest>()
            for (const sandbox of found) {
              const repo = yield* presentRepo(deps, sandbox, named)
              const number = repo === null ? null : publicationOf(sandbox, repo)?.number ?? null
              if (repo === null || number === null) continue
              const pullRequest = read.get(number) ?? (yield* host.pullRequestDetails(repo, number)).pullRequest
              read.set(number, pullRequest)
              yield* tell(deps, sandbox, repo, pullRequest)
            }
          },
          Effect.catchTag("StaleLease", Effect.die)
        ),
        status: Effect.fn("Publishing.status")(function*(by, id, repo) {
          const sandbox = yield* store.find({ grantId: by.grantId, id })
          return yield* statusOf(deps, sandbox, yield* Effect.fromResult(selectRepo(sandbox, repo)))
        }),
        statusWithComments: Effect.fn("Publishing.statusWithComments")(function*(by, id, repo) {
          const sandbox = yield* store.find({ grantId: by.grantId, id })
          return yield* describe(deps, sandbox, yield* Effect.fromResult(selectRepo(sandbox, repo)))
        }),
        publish: Effect.fn("Publishing.publish")(
          function*(by, id, asked, { ready = false } = {}) {
            const key = { grantId: by.grantId, id }
            const repo = yield* Effect.fromResult(selectRepo(yield* store.find(key), asked))
            const changed = yield* hints.watch(id)
            yield* store.change(id, key, (sandbox) => request(sandbox, repo), yield* DateTime.now)
            const ended = Effect.gen(function*() {
              for (;;) {
                const sandbox = yield* store.find(key)
                const publication = publicationOf(sandbox, repo)
                if (!isUnderWay(publication)) return { sandbox, publication }
                if (!hasTrees(sandbox)) return yield* new SandboxNotRunning()
                yield* changed
              }
            })
            const end = yield* Effect.timeoutOption(ended, WAIT)
            if (Option.isNone(end)) return yield* statusOf(deps, yield* store.find(key), repo)
            const { publication, sandbox } = end.value
            const open = ready ? openOf(publication) : null
            if (open !== null) {
              const pullRequest = yield* host.readyPullRequest(repo, open.number)
              yield* tell(deps, sandbox, repo, pullRequest)
              return recorded(open.publication, pullRequest, repo)
            }
            if (publication !== undefined) yield* refuse(publication)
            return publication?.pullRequest === undefined
              ? yield* statusOf(deps, sandbox, repo)
              : recorded(publication, publication.pullRequest, repo)
          },
          Effect.scoped,
          Effect.catchTag("StaleLease", Effect.die)
        )
      })
    })
  )
}
