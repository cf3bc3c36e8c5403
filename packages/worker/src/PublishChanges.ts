/** Carries out a publication that somebody asked for: from a working tree to one draft pull request. */
import { OnBehalfOf, type SnapshotOptions, type TreeKey, WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { CommitAuthor, commitMessage, CommitMessage, failure, published } from "@slipway/domain/publishing/Publication"
import { count } from "@slipway/domain/sandbox/Counting"
import type { Lease } from "@slipway/domain/sandbox/Leases"
import { isUnderWay, publicationOf, type Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { headRef, sameRepo } from "@slipway/domain/source/Naming"
import type { RepoName } from "@slipway/domain/source/RepoRef"
import { SourceHost } from "@slipway/domain/source/SourceHost"
import { DateTime, Effect, Result } from "effect"

/** The branch a new pull request is to be merged into: the one that was asked for, else the default branch as it is called now. */
const baseOf = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName, startedFrom: string | null) {
  const asked = sandbox.repos.find(({ fullName }) => sameRepo(fullName, repo))?.ref
  if (asked !== undefined && startedFrom !== null) return startedFrom
  return (yield* SourceHost.use((host) => host.repository(repo))).defaultBranch
})

const pushAndOpen = Effect.fnUntraced(function*(sandbox: Sandbox, repo: RepoName, history: SnapshotOptions["history"]) {
  const trees = yield* WorkingTrees
  const host = yield* SourceHost
  const key: TreeKey = { sandboxId: sandbox.id, repo }
  const { baseRef, sha } = yield* trees.snapshot(key, {
    message: commitMessage(yield* CommitMessage, sandbox, repo),
    author: yield* CommitAuthor,
    ...(history === undefined ? {} : { history })
  }).pipe(Effect.provideService(OnBehalfOf, sandbox.grantId), Effect.withSpan("publication snapshot"))
  const head = headRef(sandbox.id)
  // Before the push: what cannot be opened is not pushed.
  const before = yield* host.findOpenPullRequest(repo, head)
  const base = before === null ? yield* baseOf(sandbox, repo, baseRef) : before.baseRef
  yield* trees.push(key, { sha, headRef: head, remote: yield* host.remote(repo, "write") }).pipe(Effect.withSpan("publication push"))
  const at = yield* DateTime.now
  // Looked up before it is opened: a crash after opening must not open a second one.
  const open = before ?? (yield* host.findOpenPullRequest(repo, head))
  const found = open !== null
    ? host.pullRequestPushed(repo, open.number, { headSha: sha, at })
    : host.openDraftPullRequest(repo, {
      title: sandbox.title,
      body: `Opened by Slipway from sandbox ${sandbox.id}.`,
      baseRef: base,
      headRef: head,
      headSha: sha,
      at
    })
  return yield* Effect.withSpan(found, "publication pull request")
})

/**
 * Snapshot, push, find or open the draft, record. Safe to run again after a crash at any point; what is wrong with the
 * publication is recorded, not failed with. `history`: the agent's own commits.
 */
export const publishChanges = Effect.fn("publication")(
  function*(lease: Lease, sandbox: Sandbox, repo: RepoName, history?: SnapshotOptions["history"]) {
    const store = yield* SandboxStore
    const host = yield* SourceHost
    const { event, opened } = yield* Effect.match(pushAndOpen(sandbox, repo, history), {
      onSuccess: (pullRequest) => ({
        event: published(repo, pullRequest),
        opened: { host: host.name, repo, number: pullRequest.number }
      }),
      onFailure: (trouble) => ({ event: failure(repo, trouble), opened: undefined })
    })
    const change = store.change(
      sandbox.id,
      lease,
      // One that something else ended in the meantime is not to be reported twice.
      (current) => Result.succeed(isUnderWay(publicationOf(current, repo)) ? [event] : []),
      yield* DateTime.now,
      opened
    )
    return (yield* Effect.tap(change, count)).sandbox
  }
)
