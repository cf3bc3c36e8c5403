/**
 * Publishing a sandbox's changes as a draft pull request (decisions, section 7). A request records the wish; the worker
 * that holds the lease carries it out with `publish`; both sides read the outcome from the sandbox.
 */
import { Context, DateTime, Duration, Effect, Layer, Option, Result, Schema } from "effect"
import type { Principal } from "../access/Principal.ts"
import {
  type FileNotFound,
  type NoChanges,
  OnBehalfOf,
  type PushFailed,
  type SnapshotOptions,
  type TreeKey,
  WorkingTrees
} from "../files/WorkingTrees.ts"
import { Hints } from "../Hints.ts"
import { SandboxNotRunning } from "../sandbox/Command.ts"
import type { Publication, Sandbox } from "../sandbox/Sandbox.ts"
import type { SandboxEvent, SandboxEventOf } from "../sandbox/SandboxEvent.ts"
import { type Lease, type SandboxNotFound, SandboxStore, type StaleLease } from "../sandbox/SandboxStore.ts"
import { type RepoNotFound, type RepoRequired, selectRepo } from "../sandbox/SelectRepo.ts"
import type { SandboxId } from "../SandboxId.ts"
import { headRef, noChecks, type PullRequest, type PullRequestStatus, sandboxOf } from "../source/PullRequest.ts"
import { type RepoName, sameRepo } from "../source/RepoRef.ts"
import { RepoNotAccessible, SourceHost, SourceHostError } from "../source/SourceHost.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** `undefined`: nothing was asked for yet. */
export const publicationOf = (sandbox: Sandbox, repo: RepoName): Publication | undefined =>
  sandbox.publications.find((publication) => sameRepo(publication.repo, repo))

/** Whether a worker still has to carry it out. */
export const isUnderWay = (publication: Publication | undefined): boolean =>
  publication?.actionState === "publishing" || publication?.actionState === "updating"

/** Records the wish to publish. One that is under way is joined: both callers get its result. */
export const request = (sandbox: Sandbox, repo: RepoName): Result.Result<ReadonlyArray<SandboxEvent>, SandboxNotRunning> => {
  const known = publicationOf(sandbox, repo)
  if (isUnderWay(known)) return Result.succeed([])
  if (sandbox.status !== "running") return Result.fail(new SandboxNotRunning())
  return Result.succeed([{
    type: "pull_request.updated",
    data: {
      repo,
      action_state: (known?.number ?? null) === null ? "publishing" : "updating",
      head_ref: headRef(sandbox.id)
    }
  }])
}

/** What the event log says of a pull request that was pushed to. */
export const published = (repo: RepoName, pullRequest: PullRequest): SandboxEventOf<"pull_request.updated"> => ({
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
  const { data } = published(repo, pullRequest)
  return [{ type: "pull_request.updated", data: { ...data, action_state: actionState, ...(error === null ? {} : { error }) } }]
}

type Trouble = NoChanges | FileNotFound | PushFailed | RepoNotAccessible | SourceHostError

/** How a publication that did not go through is told; the code is the one of decisions, section 1. */
export const failure = (repo: RepoName, trouble: Trouble): SandboxEvent => {
  const told = (code: string) => ({ code, message: trouble.message })
  const [action_state, error] = trouble._tag === "NoChanges" ?
    ["idle" as const, told("invalid_request")]
    : trouble._tag === "RepoNotAccessible" ?
    ["failed" as const, told("repo_not_accessible")]
    : trouble._tag === "FileNotFound" ?
    ["failed" as const, { code: "agent_disconnected", message: "The sandbox's files are not available." }]
    : trouble._tag === "SourceHostError" && trouble.retryAfter !== undefined ?
    ["failed" as const, { ...told("unavailable"), retry_after: Math.max(0, trouble.retryAfter) }]
    : ["failed" as const, told("source_host_error")]
  return { type: "pull_request.updated", data: { repo, action_state, error } }
}

/** Nothing in the working tree to publish. */
export class NothingToPublish extends Schema.TaggedError<NothingToPublish>()("NothingToPublish", {}) {
  override get message() {
    return "no sandbox changes to publish"
  }
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

export const commitMessage = (template: string, sandbox: Pick<Sandbox, "id" | "title">, repo: RepoName): string => {
  const values = { title: sandbox.title, sandbox: sandbox.id, repo }
  // In one pass: a title may have braces of its own.
  return template.replace(/\{(title|sandbox|repo)\}/gu, (_, name: keyof typeof values) => values[name])
}

/** How long a request waits for its publication before it answers that it is still under way (decisions, section 7). */
export const WAIT = Duration.seconds(20)

/** From a working tree to one draft pull request, whatever happens in between. */
export class Publishing extends Context.Service<Publishing, {
  /** Asks for a publication and waits up to {@link WAIT} for its end. Safe to repeat: there is one pull request. */
  publish(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<
    PullRequestStatus,
    | NothingToPublish
    | RepoNotAccessible
    | RepoNotFound
    | RepoRequired
    | SandboxNotFound
    | SandboxNotRunning
    | SourceHostError
    | StoreUnavailable
  >
  /** How the pull request stands, as the source host knows it now. What changed there is told by an event. */
  status(by: Principal, id: SandboxId, repo: RepoName | undefined): Effect.Effect<
    PullRequestStatus,
    RepoNotAccessible | RepoNotFound | RepoRequired | SandboxNotFound | SourceHostError | StoreUnavailable
  >
  /** The source host says that something happened to a branch of ours: tells by an event what. Unknown branches are ignored. */
  follow(repo: RepoName, branch: string): Effect.Effect<void, RepoNotAccessible | SourceHostError | StoreUnavailable>
  /**
   * The worker's part: snapshot, push, find or open the draft, record. Safe to run again after a crash at any point;
   * what is wrong with the publication is recorded, not failed with. `history`: the agent's own commits.
   */
  carryOut(
    lease: Lease,
    sandbox: Sandbox,
    repo: RepoName,
    history?: SnapshotOptions["history"]
  ): Effect.Effect<Sandbox, SandboxNotFound | StaleLease | StoreUnavailable>
}>()("@slipway/domain/Publishing") {
  static readonly layer = Layer.effect(
    Publishing,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const trees = yield* WorkingTrees
      const host = yield* SourceHost
      const hints = yield* Hints
      const author = yield* CommitAuthor
      const template = yield* CommitMessage

      const pushAndOpen = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName, history: SnapshotOptions["history"]) {
        const key: TreeKey = { sandboxId: sandbox.id, repo }
        const { baseRef, sha } = yield* trees.snapshot(key, {
          message: commitMessage(template, sandbox, repo),
          author,
          ...(history === undefined ? {} : { history })
        }).pipe(Effect.provideService(OnBehalfOf, sandbox.grantId))
        const head = headRef(sandbox.id)
        yield* trees.push(key, { sha, headRef: head, remote: yield* host.remote(repo, "write") })
        const at = yield* DateTime.now
        // Looked up before it is opened: a crash after opening must not open a second one.
        const open = yield* host.findOpenPullRequest(repo, head)
        return open !== null
          ? yield* host.pullRequestPushed(repo, open.number, { headSha: sha, at })
          : yield* host.openDraftPullRequest(repo, {
            title: sandbox.title,
            body: `Opened by Slipway from sandbox ${sandbox.id}.`,
            baseRef: baseRef ?? (yield* host.repository(repo)).defaultBranch,
            headRef: head,
            headSha: sha,
            at
          })
      })

      const carryOut = Effect.fn("Publishing.carryOut")(
        function*(lease: Lease, sandbox: Sandbox, repo: RepoName, history?: SnapshotOptions["history"]) {
          const { event, opened } = yield* Effect.match(pushAndOpen(sandbox, repo, history), {
            onSuccess: (pullRequest) => ({
              event: published(repo, pullRequest),
              opened: { host: host.name, repo, number: pullRequest.number }
            }),
            onFailure: (trouble) => ({ event: failure(repo, trouble), opened: undefined })
          })
          return yield* store.change(
            sandbox.id,
            lease,
            // One that something else ended in the meantime is not to be reported twice.
            (current) => Result.succeed(isUnderWay(publicationOf(current, repo)) ? [event] : []),
            yield* DateTime.now,
            opened
          )
        }
      )

      /** Looked at once more under the sandbox's lock: whoever else saw the change may have told it. */
      const tell = Effect.fnUntraced(
        function*(sandbox: Sandbox, repo: RepoName, pullRequest: PullRequest) {
          if (observed(sandbox, repo, pullRequest).length === 0) return
          yield* store.change(sandbox.id, "policy", (current) => Result.succeed(observed(current, repo, pullRequest)), yield* DateTime.now)
        },
        Effect.catchTag("SandboxNotFound", () => Effect.void),
        Effect.catchTag("StaleLease", Effect.die)
      )

      const describe = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName) {
        const publication = publicationOf(sandbox, repo)
        const number = publication?.number ?? null
        const details = number === null ? null : yield* host.pullRequestDetails(repo, number)
        if (details !== null) yield* tell(sandbox, repo, details.pullRequest)
        const status: PullRequestStatus = {
          actionState: publication?.actionState ?? "idle",
          checks: details?.checks ?? noChecks,
          comments: details?.comments ?? [],
          pullRequest: details?.pullRequest ?? null,
          repository: repo,
          detailsPending: isUnderWay(publication) || details?.pending === true
        }
        return status
      })

      const refuse = ({ error, repo }: Publication) => {
        if (error === null) return Effect.void
        switch (error.code) {
          case "invalid_request":
            return Effect.fail(new NothingToPublish())
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

      return Publishing.of({
        carryOut,
        follow: Effect.fn("Publishing.follow")(
          function*(named, branch) {
            const id = sandboxOf(branch)
            if (id === undefined) return
            const sandbox = yield* store.change(id, "policy", () => Result.succeed([]), yield* DateTime.now)
            const repo = selectRepo(sandbox, named)
            if (Result.isFailure(repo)) return
            const number = publicationOf(sandbox, repo.success)?.number ?? null
            if (number === null) return
            yield* tell(sandbox, repo.success, (yield* host.pullRequestDetails(repo.success, number)).pullRequest)
          },
          Effect.catchTag("SandboxNotFound", () => Effect.void),
          Effect.catchTag("StaleLease", Effect.die)
        ),
        status: Effect.fn("Publishing.status")(function*(by, id, repo) {
          const sandbox = yield* store.find({ grantId: by.grantId, id })
          return yield* describe(sandbox, yield* Effect.fromResult(selectRepo(sandbox, repo)))
        }),
        publish: Effect.fn("Publishing.publish")(
          function*(by, id, asked) {
            const key = { grantId: by.grantId, id }
            const repo = yield* Effect.fromResult(selectRepo(yield* store.find(key), asked))
            const changed = yield* hints.watch(id)
            yield* store.change(id, key, (sandbox) => request(sandbox, repo), yield* DateTime.now)
            const ended = Effect.gen(function*() {
              for (;;) {
                const sandbox = yield* store.find(key)
                const publication = publicationOf(sandbox, repo)
                if (!isUnderWay(publication)) return { sandbox, publication }
                if (sandbox.status !== "running") return yield* new SandboxNotRunning()
                yield* changed
              }
            })
            const end = yield* Effect.timeoutOption(ended, WAIT)
            if (Option.isNone(end)) return yield* describe(yield* store.find(key), repo)
            if (end.value.publication !== undefined) yield* refuse(end.value.publication)
            return yield* describe(end.value.sandbox, repo)
          },
          Effect.scoped,
          Effect.catchTag("StaleLease", Effect.die)
        )
      })
    })
  )
}
