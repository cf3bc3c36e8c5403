/** From a tree to a branch of its repository. */
import {
  type BranchQuery,
  OnBehalfOf,
  PushFailed,
  type SnapshotOptions,
  type TreeKey,
  type WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import { Effect } from "effect"
import * as NewestCommits from "../publish/NewestCommits.ts"
import * as PublishedBranch from "../publish/PublishedBranch.ts"
import * as Push from "../publish/Push.ts"
import * as Snapshot from "../publish/Snapshot.ts"
import { boxGit, exclusive, fetchIn, find, minded, notPushed, type OpenTrees } from "./OpenTrees.ts"

/** Time to wait for a turn. */
const PUBLICATION_WAIT = "2 minutes"

export const snapshot = Effect.fn("WorkingTrees.snapshot")(
  function*(trees: OpenTrees, key: TreeKey, commit: SnapshotOptions) {
    const repository = yield* find(trees, key)
    return yield* trees.turns.turn(yield* OnBehalfOf, key.sandboxId, PUBLICATION_WAIT)(
      Snapshot.snapshot(
        repository,
        boxGit(trees, key.sandboxId),
        commit,
        { maximumBytes: trees.limits.treeBytes, fetch: fetchIn(trees), signing: trees.signing, destinations: trees.destinations }
      ),
      () => new PushFailed({ repo: key.repo, detail: "This machine has too much to publish just now.", retryable: true })
    )
  },
  exclusive,
  minded,
  notPushed
)

export const branches = Effect.fn("WorkingTrees.branches")(
  function*(trees: OpenTrees, key: TreeKey, query: BranchQuery) {
    const repository = yield* find(trees, key)
    return yield* PublishedBranch.find(repository, boxGit(trees, key.sandboxId), query, fetchIn(trees), trees.limits.treeBytes)
  },
  exclusive,
  minded,
  notPushed
)

export const newest = Effect.fn("WorkingTrees.newest")(
  function*(trees: OpenTrees, key: TreeKey, { branches, remote }: Parameters<WorkingTrees["Service"]["newest"]>[1]) {
    const repository = yield* find(trees, key)
    return yield* NewestCommits.read(repository, fetchIn(trees), remote, branches)
  },
  exclusive,
  minded,
  notPushed
)

export const push = Effect.fn("WorkingTrees.push")(
  function*(trees: OpenTrees, key: TreeKey, target: Parameters<WorkingTrees["Service"]["push"]>[1]) {
    const repository = yield* Effect.mapError(
      find(trees, key),
      () => new PushFailed({ repo: key.repo, detail: "The sandbox has no working tree here.", retryable: false })
    )
    yield* Push.push(repository, target)
  },
  exclusive,
  minded,
  notPushed
)
