/**
 * `WorkingTrees` on git and the files of this machine. The folder of a sandbox may have a size of its own (`SizedFolders`):
 *
 *     <directory>/mirrors/                                      what was fetched, shared by all trees (`Mirrors`)
 *     <directory>/sandboxes/<sandbox>/git/<owner>+<name>        the host's repository of one tree
 *     <directory>/sandboxes/<sandbox>/workspace/<folder>        the tree: all that the agent may write
 *     <directory>/sandboxes/<sandbox>/making/                   trees that are not ready
 *     <directory>/restoring/<sandbox>/                          trees that are restored: while it is there, the sandbox has none
 *     <directory>/machine                                       whose trees a loss of power tore (`PowerLoss`)
 *     <directory>/learned/                                      commits of checkpoints to compare with (`LearnedCommits`)
 */
import { MAXIMUM_SAVED_BYTES, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import * as TreesLayout from "@slipway/machine/files/TreesLayout"
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { Duration, Effect, Layer, Queue } from "effect"
import { readdir } from "node:fs/promises"
import { resolve } from "node:path"
import type { Destinations } from "../lfs/LfsHttp.ts"
import * as PowerLoss from "../local/PowerLoss.ts"
import * as TreesInFolders from "../local/TreesInFolders.ts"
import { limitPassed } from "../mirror/CheckoutSize.ts"
import * as Mirrors from "../mirror/Mirrors.ts"
import type { SigningKey } from "../publish/SigningKey.ts"
import * as Snapshot from "../publish/Snapshot.ts"
import * as LearnedCommits from "../save/LearnedCommits.ts"
import * as BaseFiles from "../tree/BaseFiles.ts"
import type { TreePlace } from "../tree/TreePlace.ts"
import * as MaintainTrees from "./MaintainTrees.ts"
import { find, minded, type OpenTrees, turnsIn } from "./OpenTrees.ts"
import { prepare } from "./PrepareTree.ts"
import * as PublishTree from "./PublishTree.ts"
import * as ReadTrees from "./ReadTrees.ts"
import { restore } from "./RestoreTrees.ts"
import { save } from "./SaveTrees.ts"
import * as TreePaths from "./TreePaths.ts"

export interface Options {
  /** Made when missing. It belongs to this process alone: locks are in memory. */
  readonly directory: string
  /** Makes and removes the folders of sandboxes in the same directory. Default: they are plain folders. */
  readonly folders?: SizedFolders.SizedFolders
  /** Where a box shows a mirror's `objects` folder, given its path here. Default: there, as without isolation. */
  readonly objectsInBox?: (objects: string) => string
  /** Bytes of changed files that one snapshot takes. Default: 1 GiB. */
  readonly maximumSnapshotBytes?: number
  /** Commits of history that trees come with; `null`: all. Default: all. */
  readonly depth?: number | null
  /** Time of one download. Default: 9 minutes, below the ten that a sandbox has to boot. */
  readonly fetchTime?: Duration.Input
  /** Bytes of one download. Default: 10 GiB. */
  readonly maximumFetchBytes?: number
  /** Bytes of the files of a commit. Default: 5 GiB. */
  readonly maximumCheckoutBytes?: number
  /** Files of a commit. Default: 500,000. */
  readonly maximumCheckoutFiles?: number
  /** Mirrors without a sandbox are removed when they were not used for this time; `null`: only to make room. Default: 30 days. */
  readonly keepUnused?: Duration.Input | null
  /** Bytes of commits of checkpoints that trees are compared with. Default: 4 GiB. */
  readonly maximumLearnedBytes?: number
  /** Signs published commits, each of which is one commit of ours then. Default: they are not signed. */
  readonly signingKey?: SigningKey | null
  /** Where contents of Git LFS may come from and go to, beside the source host. Default: by https to public addresses. */
  readonly lfs?: Destinations
  /** The boot id of the kernel. Default: read from `/proc`. */
  readonly bootId?: string
}

/** Where the folder of a sandbox has a size of its own. */
const TOO_LARGE = "Its files do not fit on the disk of a sandbox"

const GiB = 2 ** 30

/** The folders and sandboxes that a place for trees needs. */
interface Surroundings {
  readonly folders: SizedFolders.SizedFolders
  /** The folder of a sandbox with the host's repositories and local files. */
  readonly sandboxDirectory: (sandboxId: SandboxId) => string
  /** Sandboxes that have trees. */
  readonly there: ReadonlyArray<SandboxId>
}

type PlaceOf<R> = (surroundings: Surroundings) => Effect.Effect<TreePlace, never, R>

const limitsOf = (options: Options): OpenTrees["limits"] => ({
  checkoutBytes: options.maximumCheckoutBytes ?? 5 * GiB,
  checkoutFiles: options.maximumCheckoutFiles ?? 500_000,
  treeBytes: options.maximumSnapshotBytes ?? Snapshot.MAX_SNAPSHOT_BYTES
})

const mirrorsOf = (
  options: Options,
  paths: TreePaths.TreePaths,
  folders: SizedFolders.SizedFolders,
  { checkoutBytes, checkoutFiles }: OpenTrees["limits"]
) =>
  Mirrors.make({
    directory: paths.mirrors,
    depth: options.depth ?? null,
    limits: {
      fetchTime: Duration.fromInputUnsafe(options.fetchTime ?? "9 minutes"),
      fetchBytes: options.maximumFetchBytes ?? 10 * GiB,
      checkoutBytes,
      checkoutFiles
    },
    keepUnused: options.keepUnused === null ? null : Duration.fromInputUnsafe(options.keepUnused ?? "30 days"),
    borrowed: MaintainTrees.borrowed(paths, folders)
  })

const openTrees = Effect.fnUntraced(function*<R>(options: Options, placeOf: PlaceOf<R>) {
  const limits = limitsOf(options)
  const folders = options.folders ?? SizedFolders.plain(options.directory)
  const paths = TreePaths.make(options.directory, folders.directory)
  const mirrors = yield* mirrorsOf(options, paths, folders, limits)
  const growth = yield* Queue.sliding<void>(1)
  const locked = yield* KeyedLock.make
  yield* MaintainTrees.openFolders(paths, folders)
  yield* MaintainTrees.maintainMirrors(mirrors, growth)
  const place = yield* placeOf({
    folders,
    sandboxDirectory: (sandboxId) => TreePaths.sandboxDirectory(paths, sandboxId),
    there: (yield* Effect.promise(() => readdir(paths.sandboxes))).filter(TreePaths.isSandboxId)
  })
  const trees: OpenTrees = {
    host: yield* SandboxHost,
    place,
    paths,
    folders,
    mirrors,
    growth,
    limits,
    destinations: options.lfs ?? { privates: new Set() },
    signing: options.signingKey ?? null,
    locked,
    learned: LearnedCommits.make({
      directory: paths.learned,
      maximumBytes: options.maximumLearnedBytes ?? 4 * GiB,
      maximumArchiveBytes: Math.max(MAXIMUM_SAVED_BYTES, limits.treeBytes),
      limits,
      find: (key) => find({ folders, paths, place }, key),
      locked
    }),
    turns: turnsIn(yield* Effect.scope),
    readBaseFiles: BaseFiles.reader(),
    tooLarge: (yield* limitPassed)(TOO_LARGE, "diskBytes")
  }
  return trees
})

/** Trees in a place. What this process keeps of them is in `options.directory`, wherever they are. */
export const make = Effect.fnUntraced(function*<R>(options: Options, placeOf: PlaceOf<R>) {
  const trees = yield* openTrees(options, placeOf)
  const { learned, place } = trees
  return WorkingTrees.of({
    folder: TreePaths.folder,
    prepare: (...asked) => prepare(trees, ...asked),
    list: (...asked) => ReadTrees.list(trees, ...asked),
    changes: (key) => ReadTrees.changes(trees, key),
    search: (...asked) => ReadTrees.search(trees, ...asked),
    open: (...asked) => ReadTrees.open(trees, ...asked),
    compare: (...asked) => ReadTrees.compare(trees, ...asked),
    readBase: (...asked) => ReadTrees.readBase(trees, ...asked),
    findBase: (...asked) => ReadTrees.findBase(trees, ...asked),
    findBaseRef: (...asked) => ReadTrees.findBaseRef(trees, ...asked),
    diff: (...asked) => ReadTrees.diff(trees, ...asked),
    newest: (...asked) => PublishTree.newest(trees, ...asked),
    branches: (...asked) => PublishTree.branches(trees, ...asked),
    snapshot: (...asked) => PublishTree.snapshot(trees, ...asked),
    push: (...asked) => PublishTree.push(trees, ...asked),
    save: (sandboxId, ...asked) => Effect.tap(save(trees, sandboxId, ...asked), place.settle(sandboxId)),
    restore: (sandboxId, ...asked) => Effect.tap(restore(trees, sandboxId, ...asked), place.settle(sandboxId)),
    learn: (sandboxId, content) => minded(learned.learn(sandboxId, content), trees),
    has: (...asked) => MaintainTrees.has(trees, ...asked),
    isWhole: (sandboxId) => MaintainTrees.isWhole(trees, sandboxId),
    remove: (sandboxId) => MaintainTrees.remove(trees, sandboxId),
    sandboxes: MaintainTrees.sandboxes(trees),
    makeRoom: MaintainTrees.makeRoom(trees)
  })
})

/** Git reads a tree in the box that the host has for its sandbox. */
export const layer = (options: Options): Layer.Layer<WorkingTrees, never, SandboxHost> =>
  Layer.effect(
    WorkingTrees,
    make(
      options,
      Effect.fnUntraced(function*({ folders, sandboxDirectory, there }) {
        return TreesInFolders.make({
          folders,
          objectsInBox: options.objectsInBox ?? ((objects) => objects),
          power: yield* PowerLoss.watch(resolve(options.directory), there, options.bootId ?? (yield* PowerLoss.bootId)),
          workspace: (sandboxId) => TreesLayout.workspaceIn(sandboxDirectory(sandboxId))
        })
      })
    )
  )
