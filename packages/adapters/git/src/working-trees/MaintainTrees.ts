/** Which sandboxes have trees here, and what takes place on the disk: at the start, while the service runs, and when a sandbox ends. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { SizedFolders } from "@slipway/machine/files/SizedFolders"
import * as TreesLayout from "@slipway/machine/files/TreesLayout"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import { isThere, namesIn } from "@slipway/machine/node/IsThere"
import { Cause, Effect, Option, Queue } from "effect"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import type { Mirrors } from "../mirror/Mirrors.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import { isRestoring, minded, opened, type OpenTrees } from "./OpenTrees.ts"
import * as TreePaths from "./TreePaths.ts"

/** Mirrors are also looked after when one of them has grown. */
const MAINTENANCE_INTERVAL = "6 hours"

/** Folders of mirrors with objects that trees borrow. */
export const borrowed = Effect.fnUntraced(function*(paths: TreePaths.TreePaths, folders: SizedFolders) {
  const sandboxes = yield* Effect.promise(() => readdir(paths.sandboxes))
  // A folder that is not mounted would seem to borrow nothing.
  yield* Effect.forEach(sandboxes.filter(TreePaths.isSandboxId), (id) => folders.reopen(id), { discard: true })
  return new Set(
    (yield* Effect.promise(() => Promise.all(sandboxes.map((id) => HostRepository.borrowed(join(paths.sandboxes, id, "git"))))))
      .flat()
  )
})

/** Makes and closes the folders, and deletes what an earlier process left. */
export const openFolders = Effect.fnUntraced(function*(paths: TreePaths.TreePaths, folders: SizedFolders) {
  // It is unknown by now what is in it.
  yield* Effect.ignoreCause(deleteTree(paths.learned))
  yield* Effect.promise(async () => {
    const own = [paths.directory, paths.mirrors, paths.restoring, paths.learned, paths.sandboxes]
    for (const folder of own) await TreePaths.ownFolder(folder)
  })
  yield* folders.adopt
  yield* Effect.promise(async () => {
    for (const id of await readdir(paths.sandboxes)) {
      await TreePaths.closeFolders(join(paths.sandboxes, id))
      await HostRepository.sweep(join(paths.sandboxes, id, "git"))
    }
  })
})

/** Looks after the mirrors, as long as the scope is open. */
export const maintainMirrors = (mirrors: Mirrors, growth: Queue.Queue<void>) =>
  mirrors.maintain.pipe(
    Effect.catchCause((cause) => Effect.logWarning("the mirrors could not be put in order", cause)),
    Effect.andThen(Effect.timeoutOrElse(Queue.take(growth), { duration: MAINTENANCE_INTERVAL, orElse: () => Effect.void })),
    Effect.forever,
    Effect.forkScoped
  )

/** `true` where it fails or dies, which is logged. */
const notLost = (what: string) => <E, R>(self: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, never, R> =>
  Effect.catchCause(
    self,
    (cause) => Cause.hasInterrupts(cause) ? Effect.interrupt : Effect.as(Effect.logError(what, cause), true)
  )

export const has = Effect.fn("WorkingTrees.has")(
  function*(trees: OpenTrees, sandboxId: SandboxId, repos: ReadonlyArray<RepoName> = []) {
    const directory = TreePaths.sandboxDirectory(trees.paths, sandboxId)
    if (!(yield* Effect.promise(() => isThere(directory))) || (yield* isRestoring(trees, sandboxId))) return false
    for (const repo of repos) if (Option.isNone(yield* opened(trees, { sandboxId, repo }))) return false
    const repositories = TreesLayout.repositoriesIn(directory)
    const names = yield* Effect.promise(() => namesIn(repositories))
    return yield* trees.place.isThere(sandboxId, names.map((name) => join(repositories, name)))
  },
  // Trees that cannot be looked for are not lost: the next operation on them says why it fails.
  notLost("it cannot be told whether the sandbox has trees here")
)

export const isWhole = ({ place }: OpenTrees, sandboxId: SandboxId) =>
  notLost("it cannot be told whether a loss of power tore the sandbox's trees")(place.isWhole(sandboxId))

export const remove = Effect.fn("WorkingTrees.remove")((trees: OpenTrees, sandboxId: SandboxId) =>
  minded(
    Effect.suspend(() => {
      const { folders, learned, paths, place } = trees
      // The path made of it is deleted with all that is in it.
      if (!TreePaths.isSandboxId(sandboxId)) throw new Error("not a sandbox id")
      return place.remove(sandboxId).pipe(
        Effect.andThen(folders.remove(sandboxId)),
        Effect.andThen(deleteTree(TreePaths.restoringMark(paths, sandboxId))),
        Effect.andThen(learned.forget(sandboxId)),
        Effect.andThen(place.settle(sandboxId))
      )
    }),
    trees
  )
)

/** Sandboxes with trees, or with a restoration that was broken off. */
export const sandboxes = ({ paths }: OpenTrees): Effect.Effect<ReadonlyArray<SandboxId>> =>
  Effect.promise(async () => {
    const [there, left] = await Promise.all([readdir(paths.sandboxes), readdir(paths.restoring)])
    return [...new Set([...there, ...left])].filter(TreePaths.isSandboxId)
  })

/** Removes whatever can be had again. */
export const makeRoom = (trees: OpenTrees) =>
  minded(trees.learned.makeRoom.pipe(Effect.andThen(trees.mirrors.makeRoom), Effect.andThen(trees.folders.trim)), trees)
