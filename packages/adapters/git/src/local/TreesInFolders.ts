/** Trees in folders of this machine: `<workspace>/<folder>`, with the agent's `.git` in it, which no git of ours reads. */
import { FileNotFound, FileTooLarge, IsDirectory } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SizedFolders } from "@slipway/machine/files/SizedFolders"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import * as DescriptorWalk from "@slipway/machine/node/DescriptorWalk"
import * as FolderNames from "@slipway/machine/node/FolderNames"
import * as Overlays from "@slipway/machine/overlay/Overlays"
import { Effect, Exit, Stream } from "effect"
import { chmod, copyFile, mkdir, rename } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { git, type GitFailed, type GitOptions } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { layOut } from "../RepositoryLayout.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import * as SafeTree from "../tree/SafeTree.ts"
import type { Checkout, Entry, Module, Tree, TreePlace } from "../tree/TreePlace.ts"
import * as CopyTree from "./CopyTree.ts"
import type * as PowerLoss from "./PowerLoss.ts"

/** The agent may replace what is in `workspace`, but not this folder. */
const treeIn = (workspace: string, folder: string, gitDir: string): Tree => ({
  copy: (changes, place, limits) => CopyTree.copy(workspace, folder, changes, place, limits),
  openFile: Effect.fnUntraced(function*(path, maximumBytes) {
    if (path === "") return yield* new IsDirectory()
    const { fd, stats: { size } } = yield* SafeTree.openFile(workspace, Buffer.from(`${folder}/${path}`))
    if (size > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
    const bytes = Stream.unfold(
      0,
      (position) =>
        position === size ?
          Effect.undefined :
          Effect.flatMap(
            SafeTree.readChunk(fd, position, size),
            (chunk) => chunk.length === 0 ? new FileNotFound() : Effect.succeed([chunk, position + chunk.length] as const)
          )
    )
    return { size, bytes }
  }),
  listFolder: Effect.fnUntraced(function*(path, most) {
    const opened = yield* SafeTree.openFolder(workspace, Buffer.from(path === "" ? folder : `${folder}/${path}`))
    const { isCut, names } = yield* Effect.promise(() => FolderNames.first(opened, most))
    const entries: Array<Entry> = []
    yield* inPieces(names, ({ latin1 }) => {
      const stats = DescriptorWalk.statEntry(opened, Buffer.from(latin1, "latin1"))
      if (stats === "gone") return
      if (stats === "unreadable") entries.push({ latin1, kind: null, size: 0, mtimeMs: 0 })
      else {
        const kind = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : stats.isSymbolicLink() ? "symlink" : null
        entries.push({ latin1, kind, size: stats.size, mtimeMs: Math.max(0, Math.floor(stats.mtimeMs)) })
      }
    })
    return { entries, isCut }
  }, Effect.scoped),
  inBox: { gitDir, isOwn: false }
})

// The checkout of a large repository.
const TIMEOUT = "5 minutes"

const treeOnSite = ({ site }: Pick<HostRepository.Making, "site">): string => join(site, "tree")

/** Runs git in the tree of a site, before anyone else can see it. */
const onSite = (
  making: HostRepository.Making,
  args: Parameters<typeof git>[0],
  options: GitOptions = {}
): Effect.Effect<Buffer, GitFailed> =>
  git(args, {
    timeout: TIMEOUT,
    ...options,
    env: { GIT_DIR: HostRepository.madeIn(making), GIT_WORK_TREE: treeOnSite(making), ...options.env }
  })

/** Checks out, and answers the index that the agent's repository starts with. */
const checkOutFiles = Effect.fnUntraced(function*(making: HostRepository.Making, { committed, sha }: Checkout) {
  const { baseSha } = making
  const gitDir = HostRepository.madeIn(making)
  const [index, agents] = [join(gitDir, "index"), join(gitDir, "scratch", "index")]
  yield* onSite(making, ["read-tree", "-m", "-u", sha])
  if (sha === baseSha && committed === baseSha) return index
  const copy = Effect.promise(() => copyFile(index, agents))
  // The indexes stay up to date for unchanged files. The differences are uncommitted changes.
  if (committed !== baseSha) {
    yield* copy
    if (sha !== committed) yield* onSite(making, ["read-tree", "-m", committed], { env: { GIT_INDEX_FILE: agents } })
  }
  if (sha !== baseSha) yield* onSite(making, ["read-tree", "-m", baseSha])
  if (committed === baseSha) yield* copy
  return agents
})

const moduleOnSite = (making: HostRepository.Making, name: string): string => join(HostRepository.madeIn(making), "modules", name)

/**
 * Checks a submodule out, before anyone else can see it. The host keeps a repository of it, to compare its files with; the agent gets
 * its own one, at the commit. A folder that could not be filled, or not in time, is empty again.
 */
const checkOutModule = Effect.fnUntraced(function*(
  making: HostRepository.Making,
  { name, objects, path, sha, shallow }: Module,
  objectsInBox: (objects: string) => string
) {
  const [gitDir, folder] = [moduleOnSite(making, name), join(treeOnSite(making), path)]
  yield* Effect.promise(() => layOut(gitDir, { head: sha, objects, shallow }))
  yield* git(["read-tree", "-m", "-u", sha], { timeout: TIMEOUT, env: { GIT_DIR: gitDir, GIT_WORK_TREE: folder } })
  const checkout = { sha, committed: sha, head: sha, refs: new Map<string, string>() }
  yield* Effect.promise(async () => {
    await layOut(join(folder, ".git"), HostRepository.agentsLayout({ shallow }, checkout, objectsInBox(objects)))
    await copyFile(join(gitDir, "index"), join(folder, ".git", "index"))
    // Boxes of other users read what the host compares with.
    await HostRepository.settle(gitDir)
    await chmod(dirname(gitDir), 0o755)
  })
}, (self, making, { name, path }) => {
  const folder = join(treeOnSite(making), path)
  const clear = deleteTree(folder).pipe(
    Effect.andThen(Effect.promise(() => mkdir(folder))),
    Effect.andThen(deleteTree(moduleOnSite(making, name)))
  )
  return Effect.onExit(self, (exit) => Exit.isSuccess(exit) ? Effect.void : Effect.ignoreCause(clear))
})

export const make = ({ folders, objectsInBox, power, workspace }: {
  readonly folders: SizedFolders
  /** Where a box shows a mirror's `objects` folder, given its path here. */
  readonly objectsInBox: (objects: string) => string
  readonly power: Effect.Success<ReturnType<typeof PowerLoss.watch>>
  /** The host folder that holds the trees' folders. */
  readonly workspace: (sandboxId: SandboxId) => string
}): TreePlace => ({
  treeOf: (sandboxId, folder, gitDir) => treeIn(workspace(sandboxId), folder, gitDir),
  checkOut: Effect.fnUntraced(function*(making, checkout) {
    const { baseSha, objects } = making
    const [gitDir, tree] = [HostRepository.madeIn(making), treeOnSite(making)]
    yield* Effect.promise(() => mkdir(tree, { recursive: true }))
    const index = yield* checkOutFiles(making, checkout)
    const agents = join(tree, ".git")
    yield* Effect.promise(async () => {
      await layOut(agents, HostRepository.agentsLayout(making, checkout, objectsInBox(objects)))
      await copyFile(index, join(agents, "index"))
    })
    if (checkout.committed !== baseSha) {
      const packs = join(agents, "objects", "pack")
      yield* Effect.promise(() => mkdir(packs, { recursive: true }))
      yield* HostRepository.run({ gitDir }, ["pack-objects", "--revs", "--quiet", "--threads=1", join(packs, "pack")], {
        input: `${checkout.committed}\n^${baseSha}\n`
      })
    }
    yield* HostRepository.mark(making)
    yield* Effect.promise(() => HostRepository.settle(gitDir))
  }),
  checkOutModule: (making, module) => checkOutModule(making, module, objectsInBox),
  onSite: (making) => ({ tree: treeOnSite(making), objectsInBox: objectsInBox(making.objects) }),
  put: Effect.fnUntraced(function*(making) {
    const folder = join(workspace(making.sandboxId), making.folder)
    // Folders of caches that were mounted in it are not part of it and stay. A crash between the two moves leaves a tree without a
    // repository.
    yield* Effect.promise(() => Overlays.uncover(dirname(dirname(folder)), join(basename(dirname(folder)), making.folder)))
    yield* deleteTree(folder)
    yield* deleteTree(making.gitDir)
    yield* Effect.uninterruptible(Effect.promise(async () => {
      await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
      await mkdir(dirname(making.gitDir), { recursive: true, mode: 0o700 })
      await rename(treeOnSite(making), folder)
      await rename(HostRepository.madeIn(making), making.gitDir)
    }))
  }),
  leave: () => Effect.void,
  isThere: () => Effect.succeed(true),
  isWhole: (sandboxId) => Effect.sync(() => power.isWhole(sandboxId)),
  settle: power.settle,
  remove: () => Effect.void,
  isOwnDisk: folders.isSized
})
