/** The state that operations on working trees share: paths, locks, limits, turns, the look-up of a tree, and explanations of failures. */
import { FileNotFound, PushFailed, type TreeKey, TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileTree } from "@slipway/domain/files/schema/FileTree"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { SizedFolders } from "@slipway/machine/files/SizedFolders"
import * as DiskErrors from "@slipway/machine/node/DiskErrors"
import * as FairScheduler from "@slipway/machine/node/FairScheduler"
import { isThere } from "@slipway/machine/node/IsThere"
import { Effect, Option, Queue, type Scope } from "effect"
import { availableParallelism } from "node:os"
import type { GitFailed } from "../Git.ts"
import type { Destinations } from "../lfs/LfsHttp.ts"
import type { Mirrors } from "../mirror/Mirrors.ts"
import type * as FetchedCommits from "../publish/FetchedCommits.ts"
import type { SigningKey } from "../publish/SigningKey.ts"
import type { Explanation } from "../Remotes.ts"
import type { LearnedCommits } from "../save/LearnedCommits.ts"
import type * as Restoring from "../save/Restoring.ts"
import type * as BaseFiles from "../tree/BaseFiles.ts"
import * as BoxGit from "../tree/BoxGit.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import type * as Listing from "../tree/Listing.ts"
import type { TreePlace } from "../tree/TreePlace.ts"
import * as TreePaths from "./TreePaths.ts"

export interface OpenTrees {
  readonly host: SandboxHost["Service"]
  readonly place: TreePlace
  readonly paths: TreePaths.TreePaths
  readonly folders: SizedFolders
  readonly mirrors: Mirrors
  /** Gets a value when a mirror has grown. */
  readonly growth: Queue.Queue<void>
  readonly learned: LearnedCommits
  readonly limits: Restoring.Limits
  /** Where contents of Git LFS may come from and go to. */
  readonly destinations: Destinations
  /** Signs published commits. */
  readonly signing: SigningKey | null
  /** By sandbox, or by repository: {@link exclusive}. In this process alone. */
  locked(key: string): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly turns: Turns
  readonly readBaseFiles: ReturnType<typeof BaseFiles.reader>
  /** Where the folder of a sandbox has a size of its own: the files of a commit do not fit in it. */
  readonly tooLarge: Explanation
}

/** Trees that git looks over at once, one of each sandbox: each takes processor and disk time from all the others. */
const AT_WORK: FairScheduler.Limits = {
  atOnce: Math.max(4, availableParallelism()),
  perGroup: Math.max(2, Math.floor(availableParallelism() / 2))
}

type ListingError = Effect.Error<ReturnType<typeof Listing.list>> | TreesUnavailable

interface Turns {
  /** The timeout of git over a whole tree. */
  readonly turn: FairScheduler.Scheduler
  /** Comparisons by repository, in `turn`. */
  readonly comparing: FairScheduler.Sharing<Listing.Comparison, GitFailed>
  readonly listing: FairScheduler.Sharing<FileTree, ListingError>
}

/** Shared work goes on in `scope`. */
export const turnsIn = (scope: Scope.Scope): Turns => {
  const turn = FairScheduler.make(AT_WORK)
  return {
    turn,
    comparing: FairScheduler.sharing(turn, scope),
    listing: FairScheduler.sharing(FairScheduler.make(AT_WORK), scope)
  }
}

export const boxGit = ({ host }: OpenTrees, sandboxId: SandboxId): BoxGit.BoxGit => BoxGit.make(host, sandboxId)

export const isRestoring = ({ paths }: Pick<OpenTrees, "paths">, sandboxId: SandboxId): Effect.Effect<boolean> =>
  Effect.promise(() => isThere(TreePaths.restoringMark(paths, sandboxId)))

/** The repository of the tree, also while the sandbox's trees are restored. */
export const opened = ({ paths, place }: Pick<OpenTrees, "paths" | "place">, key: TreeKey) => {
  const gitDir = TreePaths.gitDirectory(paths, key)
  return HostRepository.open(gitDir, (folder) => place.treeOf(key.sandboxId, folder, gitDir))
}

export const find = Effect.fnUntraced(function*(trees: Pick<OpenTrees, "folders" | "paths" | "place">, key: TreeKey) {
  if (yield* isRestoring(trees, key.sandboxId)) return yield* new FileNotFound()
  yield* trees.folders.reopen(key.sandboxId)
  const found = yield* opened(trees, key)
  return Option.isSome(found) ? found.value : yield* new FileNotFound()
})

/** The commit of a repository, in its mirror. */
export const fetchIn = ({ growth, mirrors }: OpenTrees): FetchedCommits.Fetch => (repo, remote, sha) =>
  Effect.tap(mirrors.fetch(repo, remote, sha, sha), ({ isNew }) => isNew ? Queue.offer(growth, undefined) : Effect.void)

/** One operation at a time on the repository of a tree. */
export const exclusive = <A, E, R>(self: Effect.Effect<A, E, R>, { locked, paths }: OpenTrees, key: TreeKey): Effect.Effect<A, E, R> =>
  locked(TreePaths.gitDirectory(paths, key))(self)

const SANDBOX_FULL = "The disk of the sandbox is full. Something in it has to be deleted first."

/** A disk error becomes `TreesUnavailable`, because a caller can act on it; any other defect stays one. `key`: the only tree used. */
export const minded = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  { place }: OpenTrees,
  key?: TreeKey
): Effect.Effect<A, E | TreesUnavailable, R> =>
  Effect.catchDefect(
    self,
    Effect.fnUntraced(function*(defect) {
      const trouble = DiskErrors.of(defect)
      if (trouble === undefined) return yield* Effect.die(defect)
      yield* Effect.logWarning("the disk of the working trees refused something", defect)
      const isOwn = key !== undefined && trouble.isFull && (yield* place.isOwnDisk(key.sandboxId, defect))
      const { detail, retryable } = trouble
      return yield* new TreesUnavailable(isOwn ? { detail: SANDBOX_FULL, retryable: false } : { detail, retryable })
    })
  )

/** `TreesUnavailable` becomes the error of a publication. */
export const notPushed = <A, E, R>(self: Effect.Effect<A, E | TreesUnavailable, R>, _trees: OpenTrees, { repo }: TreeKey) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | TreesUnavailable, TreesUnavailable> => error instanceof TreesUnavailable,
    ({ detail, retryable }) => Effect.fail(new PushFailed({ repo, detail, retryable }))
  )
