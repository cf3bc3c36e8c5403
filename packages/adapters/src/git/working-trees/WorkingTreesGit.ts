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
import {
  type BranchQuery,
  CloneFailed,
  type DiffQuery,
  FileNotFound,
  FileProtected,
  FileTooLarge,
  type FileVersion,
  MAXIMUM_SAVED_BYTES,
  OnBehalfOf,
  PushFailed,
  type SnapshotOptions,
  type TreeKey,
  TreesUnavailable,
  WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import type { FileTree } from "@slipway/domain/files/schema/FileTree"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Cause, Clock, Duration, Effect, Layer, Option, Queue, Schema, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { chmod, mkdir, readdir, rmdir } from "node:fs/promises"
import { availableParallelism } from "node:os"
import { basename, dirname, join, resolve } from "node:path"
import * as SizedFolders from "../../hosts/box/SizedFolders.ts"
import * as TreesLayout from "../../hosts/box/TreesLayout.ts"
import { deleteTree } from "../../node/DeleteTree.ts"
import * as DiskTrouble from "../../node/DiskTrouble.ts"
import { isThere, namesIn } from "../../node/IsThere.ts"
import * as KeyedLock from "../../node/KeyedLock.ts"
import * as FairScheduler from "../FairScheduler.ts"
import { GitFailed } from "../Git.ts"
import * as PowerLoss from "../local/PowerLoss.ts"
import * as TreesHere from "../local/TreesHere.ts"
import * as Mirrors from "../mirror/Mirrors.ts"
import type * as FetchedCommits from "../publish/FetchedCommits.ts"
import * as PublishedBranch from "../publish/PublishedBranch.ts"
import * as Push from "../publish/Push.ts"
import * as Snapshot from "../publish/Snapshot.ts"
import * as LearnedCommits from "../save/LearnedCommits.ts"
import * as SavedTrees from "../save/SavedTrees.ts"
import * as BaseFiles from "../tree/BaseFiles.ts"
import * as BoxGit from "../tree/BoxGit.ts"
import * as Changes from "../tree/Changes.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import * as Listing from "../tree/Listing.ts"
import * as Submodules from "../tree/Submodules.ts"
import type { TreePlace } from "../tree/Tree.ts"
import * as TreeDiff from "./TreeDiff.ts"

export interface Options {
  /** Made when missing. It belongs to this process alone: locks are in memory. */
  readonly directory: string
  /** Of the same directory: what the folders of sandboxes are made and removed by. Default: they are plain folders. */
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
  /**
   * Mirrors that no sandbox borrows from are removed when nobody has asked for them in this time; `null`: only to make room.
   * Default: 30 days.
   */
  readonly keepUnused?: Duration.Input | null
  /** Bytes of commits of checkpoints that trees are compared with. Default: 4 GiB. */
  readonly maximumLearnedBytes?: number
  /** What the kernel is called since it started. Default: as it says. */
  readonly bootId?: string
}

/** Mirrors are also looked after when one of them has grown. */
const MAINTENANCE_INTERVAL = "6 hours"

/** Trees that git looks over at once, one of each sandbox: they take time of processors and of the disk from everybody. */
const AT_WORK: FairScheduler.Limits = {
  atOnce: Math.max(4, availableParallelism()),
  perGroup: Math.max(2, Math.floor(availableParallelism() / 2))
}
/** Listings wait so long for their turn, and then are shown without what git says. A checkpoint of a large tree goes before them. */
const WAIT = "15 seconds"
const PUBLICATION_WAIT = "2 minutes"
/** Behind a checkpoint of a large tree, or its publication. */
const COMPARISON_WAIT = "1 minute"
/** Listings take some milliseconds each when it is their turn. */
const READING_WAIT = "15 seconds"

/** Where the folder of a sandbox has a size of its own. */
const TOO_LARGE = "Its files do not fit on the disk of a sandbox"
const SANDBOX_FULL = "The disk of the sandbox is full. Something in it has to be deleted first."

type Trees = WorkingTrees["Service"]
type BaseLimit = Parameters<Trees["readBase"]>[2]

const GiB = 2 ** 30

/**
 * A folder that nobody else on the machine gets through, also where an earlier version let them: repositories may be private.
 * Boxes of other users are shown what is theirs by whoever starts them.
 */
const ownFolder = async (path: string): Promise<void> => {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chmod(path, 0o700)
}

/** The same for what is there of a sandbox. Its user owns the workspace. */
const closeFolders = async (path: string): Promise<void> => {
  for (const folder of [path, join(path, "workspace")]) {
    await chmod(folder, 0o700).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== "ENOENT" && cause.code !== "ENOTDIR") throw cause
    })
  }
}

/** What a place for trees is made of. */
export interface Surroundings {
  readonly folders: SizedFolders.SizedFolders
  /** Of the host's repositories, and of what is local of the sandbox. */
  readonly sandboxDirectory: (sandboxId: SandboxId) => string
  /** Sandboxes that have trees. */
  readonly there: ReadonlyArray<SandboxId>
}

/** Trees in a place: what is known of them is in `options.directory`, wherever they are. */
export const make = Effect.fnUntraced(function*<R>(
  options: Options,
  placeOf: (surroundings: Surroundings) => Effect.Effect<TreePlace, never, R>
) {
  const tooLarge = (yield* Mirrors.limitPassed)(TOO_LARGE, "diskBytes")
  const checkout = {
    checkoutBytes: options.maximumCheckoutBytes ?? 5 * GiB,
    checkoutFiles: options.maximumCheckoutFiles ?? 500_000
  }
  const treeBytes = options.maximumSnapshotBytes ?? Snapshot.MAX_SNAPSHOT_BYTES
  const folders = options.folders ?? SizedFolders.plain(options.directory)
  const sandboxesDirectory = folders.directory
  const mirrorsDirectory = join(resolve(options.directory), "mirrors")
  const restoringDirectory = join(resolve(options.directory), "restoring")
  const learnedDirectory = join(resolve(options.directory), "learned")
  const mirrors = yield* Mirrors.make({
    directory: mirrorsDirectory,
    depth: options.depth ?? null,
    limits: {
      fetchTime: Duration.fromInputUnsafe(options.fetchTime ?? "9 minutes"),
      fetchBytes: options.maximumFetchBytes ?? 10 * GiB,
      ...checkout
    },
    keepUnused: options.keepUnused === null ? null : Duration.fromInputUnsafe(options.keepUnused ?? "30 days"),
    borrowed: Effect.gen(function*() {
      const sandboxes = yield* Effect.promise(() => readdir(sandboxesDirectory))
      // What is not mounted would seem to borrow nothing.
      yield* Effect.forEach(sandboxes.filter(isSandboxId), (id) => folders.reopen(id), { discard: true })
      return new Set(
        (yield* Effect.promise(() => Promise.all(sandboxes.map((id) => HostRepository.borrowed(join(sandboxesDirectory, id, "git"))))))
          .flat()
      )
    })
  })
  const host = yield* SandboxHost
  const scope = yield* Effect.scope
  const turn = FairScheduler.make(AT_WORK)
  /** A mirror has grown. */
  const growth = yield* Queue.sliding<void>(1)
  const locked = yield* KeyedLock.make
  // Nobody knows any more what is in it.
  yield* Effect.ignoreCause(deleteTree(learnedDirectory))
  yield* Effect.promise(async () => {
    const own = [resolve(options.directory), mirrorsDirectory, restoringDirectory, learnedDirectory, sandboxesDirectory]
    for (const folder of own) await ownFolder(folder)
  })
  yield* folders.adopt
  yield* Effect.promise(async () => {
    for (const id of await readdir(sandboxesDirectory)) {
      await closeFolders(join(sandboxesDirectory, id))
      await HostRepository.sweep(join(sandboxesDirectory, id, "git"))
    }
  })
  yield* mirrors.maintain.pipe(
    Effect.catchCause((cause) => Effect.logWarning("the mirrors could not be put in order", cause)),
    Effect.andThen(Effect.timeoutOrElse(Queue.take(growth), { duration: MAINTENANCE_INTERVAL, orElse: () => Effect.void })),
    Effect.forever,
    Effect.forkScoped
  )

  const sandboxDirectory = (sandboxId: SandboxId): string => {
    // It becomes a path of which much is deleted.
    if (!isSandboxId(sandboxId)) throw new Error("not a sandbox id")
    return join(sandboxesDirectory, sandboxId)
  }
  /** What the disk refuses can be acted on; anything else that dies is a defect. `key`: of the tree that all of it was done in. */
  const minded = <A, E, R>(self: Effect.Effect<A, E, R>, key?: TreeKey): Effect.Effect<A, E | TreesUnavailable, R> =>
    Effect.catchDefect(
      self,
      Effect.fnUntraced(function*(defect) {
        const trouble = DiskTrouble.of(defect)
        if (trouble === undefined) return yield* Effect.die(defect)
        yield* Effect.logWarning("the disk of the working trees refused something", defect)
        const isOwn = key !== undefined && trouble.isFull && (yield* place.isOwnDisk(key.sandboxId, defect))
        const { detail, retryable } = trouble
        return yield* new TreesUnavailable(isOwn ? { detail: SANDBOX_FULL, retryable: false } : { detail, retryable })
      })
    )
  const place = yield* placeOf({
    folders,
    sandboxDirectory,
    there: (yield* Effect.promise(() => readdir(sandboxesDirectory))).filter(isSandboxId)
  })
  const gitDirectory = ({ repo, sandboxId }: TreeKey): string =>
    join(TreesLayout.repositoriesIn(sandboxDirectory(sandboxId)), repo.toLowerCase().replace("/", "+"))
  /** There while the sandbox's trees are restored, and when that was broken off. */
  const restoringMark = (sandboxId: SandboxId): string => join(restoringDirectory, basename(sandboxDirectory(sandboxId)))
  const isRestoring = (sandboxId: SandboxId) => Effect.promise(() => isThere(restoringMark(sandboxId)))
  const opened = (key: TreeKey) => {
    const gitDir = gitDirectory(key)
    return HostRepository.open(gitDir, (folder) => place.treeOf(key.sandboxId, folder, gitDir))
  }
  const find = Effect.fnUntraced(function*(key: TreeKey) {
    if (yield* isRestoring(key.sandboxId)) return yield* new FileNotFound()
    yield* folders.reopen(key.sandboxId)
    const found = yield* opened(key)
    return Option.isSome(found) ? found.value : yield* new FileNotFound()
  })
  const exclusive = <A, E, R>(self: Effect.Effect<A, E, R>, key: TreeKey): Effect.Effect<A, E, R> => locked(gitDirectory(key))(self)
  const learned = LearnedCommits.make({
    directory: learnedDirectory,
    maximumBytes: options.maximumLearnedBytes ?? 4 * GiB,
    maximumArchiveBytes: Math.max(MAXIMUM_SAVED_BYTES, treeBytes),
    limits: { ...checkout, treeBytes },
    find,
    locked
  })

  const siteOf = (
    { repo, sandboxId }: TreeKey,
    commit: Mirrors.FetchedCommit,
    folder: string,
    baseRef: string | null,
    preparedAt: number
  ): HostRepository.Making => {
    const gitDir = gitDirectory({ repo, sandboxId })
    return {
      sandboxId,
      site: join(sandboxDirectory(sandboxId), "making", basename(gitDir), randomUUID()),
      repo,
      gitDir,
      folder,
      baseSha: commit.sha,
      baseRef,
      objects: commit.objects,
      shallow: commit.shallow,
      preparedAt
    }
  }
  const openSites = ({ sandboxId, site }: HostRepository.Making) =>
    Effect.promise(async () => {
      await ownFolder(sandboxDirectory(sandboxId))
      await mkdir(dirname(site), { recursive: true, mode: 0o700 })
    })
  const closeSites = (making: HostRepository.Making) =>
    Effect.promise(() => rmdir(making.site).then(() => rmdir(dirname(making.site))).then(() => true, () => false)).pipe(
      // Nearly always all of it was moved to its place.
      Effect.flatMap((isGone) => isGone ? Effect.void : Effect.ensuring(deleteTree(dirname(making.site)), place.leave(making))),
      Effect.ignoreCause
    )
  /** Where the sandbox's folder has a size of its own, room that is made elsewhere would not help. */
  const fitting = ({ repo, sandboxId }: TreeKey) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CloneFailed, R> =>
    Effect.catchCause(
      self,
      Effect.fnUntraced(function*(cause) {
        if (DiskTrouble.of(Cause.squash(cause))?.isFull === true && (yield* folders.isSized(sandboxId))) {
          return yield* new CloneFailed({ repo, ...tooLarge })
        }
        return yield* Effect.failCause(cause)
      })
    )

  /** What a restoration left that was broken off is nobody's. */
  const clearLeft = (sandboxId: SandboxId) =>
    Effect.gen(function*() {
      if (!(yield* isRestoring(sandboxId))) return
      yield* deleteTree(join(sandboxDirectory(sandboxId), "git"))
      yield* deleteTree(restoringMark(sandboxId))
    }).pipe(locked(sandboxId))

  const baseOf = Effect.fnUntraced(function*(repository: HostRepository.HostRepository) {
    const submodules = yield* Submodules.inBase(repository)
    return { baseSha: repository.baseSha, baseRef: repository.baseRef, ...(submodules.length === 0 ? {} : { submodules }) }
  })

  const prepare = Effect.fn("WorkingTrees.prepare")(
    function*(key: TreeKey, source: Parameters<Trees["prepare"]>[1]) {
      const { repo, sandboxId } = key
      const gitDir = gitDirectory(key)
      yield* folders.reopen(sandboxId)
      const existing = yield* opened(key)
      if (Option.isSome(existing) && (yield* place.isThere(sandboxId, [gitDir]))) {
        return yield* baseOf(existing.value)
      }

      const commit = yield* mirrors.fetch(repo, source.remote, source.ref, source.defaultBranch)
      const making = siteOf(key, commit, folder(repo, source.repos), commit.branch, yield* Clock.currentTimeMillis)
      yield* folders.open(sandboxId)
      yield* openSites(making)
      // A site of its own: a process of a worker that was killed may still be at work on another.
      yield* HostRepository.layOutSite(making).pipe(
        Effect.andThen(place.checkOut(making, HostRepository.checkoutOf(making))),
        Effect.andThen(place.put(making)),
        // What cannot be deleted now, because an orphan still writes to it, goes with the sandbox.
        fitting(key),
        Effect.ensuring(closeSites(making)),
        Effect.catchTag("GitFailed", (failure) =>
          DiskTrouble.of(failure) !== undefined ? Effect.die(failure) : Effect.andThen(
            Effect.logWarning("git could not check out a commit", { repo, failure: failure.message }),
            new CloneFailed({ repo, detail: "The commit could not be checked out.", retryable: failure.reason === "timeout" })
          ))
      )
      if (commit.isNew) yield* Queue.offer(growth, undefined)
      return yield* baseOf(yield* Effect.orDie(find(key)))
    },
    Effect.scoped,
    exclusive,
    (self, { sandboxId }) => minded(Effect.andThen(clearLeft(sandboxId), self))
  )

  const boxGit = (sandboxId: SandboxId) => BoxGit.make(host, sandboxId)
  const comparing = FairScheduler.sharing<Listing.Comparison, GitFailed>(turn, scope)
  const compared = (sandboxId: SandboxId, repository: HostRepository.HostRepository): Listing.Compared =>
    Effect.flatMap(OnBehalfOf, (grant) =>
      comparing(
        repository.gitDir,
        [grant, sandboxId, WAIT],
        Effect.flatMap(Push.published(repository), (published) => Changes.changes(repository, boxGit(sandboxId), published)),
        () => new GitFailed({ command: "diff", reason: "timeout", code: null, stderr: "others are first" })
      ))

  const listing = FairScheduler.sharing<FileTree, Effect.Error<ReturnType<typeof Listing.list>> | TreesUnavailable>(
    FairScheduler.make(AT_WORK),
    scope
  )
  const list = Effect.fn("WorkingTrees.list")(function*(key: TreeKey, directory: string) {
    if (isProtected(directory)) return yield* new FileProtected()
    const repository = yield* find(key)
    // First what may take long: the rest needs this process for some milliseconds.
    const comparison = yield* Listing.known(repository.repo, compared(key.sandboxId, repository))
    return yield* listing(
      // Whoever got another comparison asked at another time.
      `${repository.gitDir}\0${directory}\0${comparison?.number}`,
      [yield* OnBehalfOf, key.sandboxId, READING_WAIT],
      Listing.list(repository, directory, comparison),
      () => new TreesUnavailable({ detail: "Git did not get its turn: this machine has too much to list just now.", retryable: true })
    )
  }, minded)

  const changes = Effect.fn("WorkingTrees.changes")(function*(key: TreeKey) {
    const repository = yield* find(key)
    return yield* Listing.changes(repository.repo, compared(key.sandboxId, repository))
  }, minded)

  const open = Effect.fn("WorkingTrees.open")(function*(key: TreeKey, path: string, maximumBytes: number) {
    if (isProtected(path)) return yield* new FileProtected()
    const { tree } = yield* find(key)
    return yield* tree.openFile(path, maximumBytes)
  }, minded)

  const workingVersion = Effect.fnUntraced(function*(repository: HostRepository.HostRepository, path: string, maximumBytes: number) {
    const { bytes } = yield* repository.tree.openFile(path, maximumBytes)
    return versionOf(Buffer.concat(yield* Stream.runCollect(bytes)), "working", repository.baseSha)
  }, Effect.scoped)

  /** `null` unless the commit has a regular file there. */
  const committedVersion = Effect.fnUntraced(
    function*(repository: HostRepository.HostRepository, commit: string, path: string, maximumBytes: number) {
      const entry = yield* Effect.orDie(HostRepository.run(repository, ["ls-tree", "-z", "-l", commit, "--", path]))
      const [mode = "", , blob = "", size = ""] = entry.subarray(0, entry.indexOf(0x09)).toString().split(/ +/u)
      if (!mode.startsWith("100")) return null
      if (Number(size) > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
      return versionOf(yield* Effect.orDie(HostRepository.run(repository, ["cat-file", "blob", blob])), commit, commit)
    }
  )

  const compare = Effect.fn("WorkingTrees.compare")(function*(key: TreeKey, path: string, maximumBytes: number) {
    if (isProtected(path)) return yield* new FileProtected()
    const repository = yield* find(key)
    const working = yield* workingVersion(repository, path, maximumBytes).pipe(Effect.catchTag("FileNotFound", () => Effect.succeed(null)))
    const base = yield* committedVersion(repository, repository.baseSha, path, maximumBytes)
    const published = yield* Push.published(repository)
    const head = published === undefined ? base : yield* committedVersion(repository, published, path, maximumBytes)
    return { working, head, base }
  }, minded)

  const readBaseFiles = BaseFiles.reader()
  const readBase = Effect.fn("WorkingTrees.readBase")(function*(key: TreeKey, paths: Iterable<string>, { maximumBytes }: BaseLimit) {
    return yield* readBaseFiles(yield* find(key), paths, maximumBytes)
  }, minded)

  const findBase: Trees["findBase"] = Effect.fn("WorkingTrees.findBase")(function*(key, names, { maximum }) {
    return yield* BaseFiles.find(yield* find(key), names, maximum)
  }, minded)

  const findBaseRef: Trees["findBaseRef"] = Effect.fn("WorkingTrees.findBaseRef")(function*(key, { refs, remote }) {
    const { baseSha } = yield* find(key)
    return { baseSha, on: refs.length === 0 ? null : yield* mirrors.findRef(key.repo, remote, baseSha, refs) }
  }, minded)

  const diff = Effect.fn("WorkingTrees.diff")(function*(key: TreeKey, asked: DiffQuery) {
    const repository = yield* find(key)
    return yield* turn(yield* OnBehalfOf, key.sandboxId, COMPARISON_WAIT)(
      TreeDiff.diff(
        repository,
        boxGit(key.sandboxId),
        asked,
        treeBytes,
        learned.objectsOf(repository)
      ),
      () =>
        new TreesUnavailable({
          detail: `Git did not get its turn within ${COMPARISON_WAIT}: this machine has too much to compare just now.`,
          retryable: true
        })
    )
  }, minded)

  const fetch: FetchedCommits.Fetch = (repo, remote, sha) =>
    Effect.tap(mirrors.fetch(repo, remote, sha, sha), ({ isNew }) => isNew ? Queue.offer(growth, undefined) : Effect.void)

  const snapshot = Effect.fn("WorkingTrees.snapshot")(
    function*(key: TreeKey, commit: SnapshotOptions) {
      const repository = yield* find(key)
      return yield* turn(yield* OnBehalfOf, key.sandboxId, PUBLICATION_WAIT)(
        Snapshot.snapshot(
          repository,
          boxGit(key.sandboxId),
          commit,
          treeBytes,
          fetch
        ),
        () => new PushFailed({ repo: key.repo, detail: "This machine has too much to publish just now.", retryable: true })
      )
    },
    exclusive,
    minded,
    notPushed
  )

  const branches = Effect.fn("WorkingTrees.branches")(
    function*(key: TreeKey, query: BranchQuery) {
      const repository = yield* find(key)
      return yield* PublishedBranch.find(repository, boxGit(key.sandboxId), query, fetch, treeBytes)
    },
    exclusive,
    minded,
    notPushed
  )

  const push = Effect.fn("WorkingTrees.push")(
    function*(key: TreeKey, target: Parameters<Trees["push"]>[1]) {
      const repository = yield* Effect.mapError(
        find(key),
        () => new PushFailed({ repo: key.repo, detail: "The sandbox has no working tree here.", retryable: false })
      )
      yield* Push.push(repository, target)
    },
    exclusive,
    minded,
    notPushed
  )

  const { restore, save } = SavedTrees.make({
    boxGit,
    folders,
    place,
    fetch,
    limits: { ...checkout, treeBytes },
    turn,
    locked,
    minded,
    exclusive,
    fitting,
    find,
    remembered: (key) => Effect.flatMap(opened(key), (found) => Option.isSome(found) ? Push.remembered(found.value) : Effect.undefined),
    folder,
    sandboxDirectory,
    restoringMark,
    sites: { of: siteOf, open: openSites, close: closeSites }
  })

  const has = Effect.fn("WorkingTrees.has")(
    function*(sandboxId: SandboxId, repos: ReadonlyArray<RepoName> = []) {
      const directory = sandboxDirectory(sandboxId)
      if (!(yield* Effect.promise(() => isThere(directory))) || (yield* isRestoring(sandboxId))) return false
      for (const repo of repos) if (Option.isNone(yield* opened({ sandboxId, repo }))) return false
      const repositories = TreesLayout.repositoriesIn(directory)
      const names = yield* Effect.promise(() => namesIn(repositories))
      return yield* place.isThere(sandboxId, names.map((name) => join(repositories, name)))
    },
    // Trees that nobody can look for are not lost: what is done with them says why it cannot be done.
    notLost("it cannot be told whether the sandbox has trees here")
  )

  const isWhole = (sandboxId: SandboxId) =>
    notLost("it cannot be told whether a loss of power tore the sandbox's trees")(place.isWhole(sandboxId))

  const remove = Effect.fn("WorkingTrees.remove")((sandboxId: SandboxId) =>
    minded(Effect.suspend(() => {
      // It becomes a path that is deleted with all that is in it.
      if (!isSandboxId(sandboxId)) throw new Error("not a sandbox id")
      return place.remove(sandboxId).pipe(
        Effect.andThen(folders.remove(sandboxId)),
        Effect.andThen(deleteTree(restoringMark(sandboxId))),
        Effect.andThen(learned.forget(sandboxId)),
        Effect.andThen(place.settle(sandboxId))
      )
    }))
  )

  const sandboxes = Effect.promise(async () => {
    const [there, left] = await Promise.all([readdir(sandboxesDirectory), readdir(restoringDirectory)])
    return [...new Set([...there, ...left])].filter(isSandboxId)
  })

  return WorkingTrees.of({
    folder,
    prepare,
    list,
    changes,
    open,
    compare,
    readBase,
    findBase,
    findBaseRef,
    diff,
    branches,
    snapshot,
    push,
    save: (sandboxId, ...asked) => Effect.tap(save(sandboxId, ...asked), place.settle(sandboxId)),
    restore: (sandboxId, ...asked) => Effect.tap(restore(sandboxId, ...asked), place.settle(sandboxId)),
    learn: (sandboxId, content) => minded(learned.learn(sandboxId, content)),
    has,
    isWhole,
    remove,
    sandboxes,
    makeRoom: minded(learned.makeRoom.pipe(Effect.andThen(mirrors.makeRoom), Effect.andThen(folders.trim)))
  })
})

/** What git says of a tree, it says in the box that the host has for its sandbox. */
export const layer = (options: Options): Layer.Layer<WorkingTrees, never, SandboxHost> =>
  Layer.effect(
    WorkingTrees,
    make(
      options,
      Effect.fnUntraced(function*({ folders, sandboxDirectory, there }) {
        return TreesHere.make({
          folders,
          objectsInBox: options.objectsInBox ?? ((objects) => objects),
          power: yield* PowerLoss.watch(resolve(options.directory), there, options.bootId ?? (yield* PowerLoss.bootId)),
          workspace: (sandboxId) => TreesLayout.workspaceIn(sandboxDirectory(sandboxId))
        })
      })
    )
  )

const isSandboxId = Schema.is(SandboxId)

/** `true` where it fails or dies, which is logged. */
const notLost = (what: string) => <E, R>(self: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, never, R> =>
  Effect.catchCause(
    self,
    (cause) => Cause.hasInterrupts(cause) ? Effect.interrupt : Effect.as(Effect.logError(what, cause), true)
  )

/** The repository's name; with the owner in front where two repositories share it. No name of a repository has a `+`. */
const folder = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}

const notPushed = <A, E, R>(self: Effect.Effect<A, E | TreesUnavailable, R>, { repo }: TreeKey) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | TreesUnavailable, TreesUnavailable> => error instanceof TreesUnavailable,
    ({ detail, retryable }) => Effect.fail(new PushFailed({ repo, detail, retryable }))
  )

/** As git does: what has a NUL in its first 8,000 bytes is no text. */
const versionOf = (bytes: Buffer, ref: string, commit: string): FileVersion => {
  const binary = bytes.subarray(0, 8_000).includes(0)
  const content = binary ? null : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
  return { content, hash: blobId(bytes, commit), ref, size: bytes.length, binary }
}

/** As git names the bytes in the repository of a commit: by SHA-1, or by SHA-256, whose names are longer. */
const blobId = (bytes: Buffer, commit: string): string =>
  createHash(commit.length === 40 ? "sha1" : "sha256").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
