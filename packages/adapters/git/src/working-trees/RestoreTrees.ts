/**
 * Restores the trees of a sandbox: all of them, or none. While they are restored, and after a restoration was broken off, the sandbox
 * has a mark and no trees.
 */
import {
  CheckpointDamaged,
  CloneFailed,
  MAXIMUM_SAVED_BYTES,
  type TreeKey,
  type WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import { isThere } from "@slipway/machine/node/IsThere"
import { Effect, Exit, Option, type Stream } from "effect"
import { mkdir, readdir } from "node:fs/promises"
import { join } from "node:path"
import { explained } from "../GitFailure.ts"
import * as Push from "../publish/Push.ts"
import * as Restoring from "../save/Restoring.ts"
import * as TreesArchive from "../save/TreesArchive.ts"
import { exclusive, fetchIn, minded, opened, type OpenTrees } from "./OpenTrees.ts"
import { closeSite, fitting, openSite } from "./PrepareTree.ts"
import * as TreeContents from "./TreeContents.ts"
import * as TreePaths from "./TreePaths.ts"

type Restore = WorkingTrees["Service"]["restore"]
type Source = Parameters<Restore>[2][number]
type Forget = "publication" | undefined

const otherRepositories = () => new CheckpointDamaged({ detail: "It is of other repositories." })

/** The publications that the repository remembers that is there now. */
const remembered = (trees: OpenTrees, key: TreeKey) =>
  Effect.flatMap(opened(trees, key), (found) => Option.isSome(found) ? Push.remembered(found.value) : Effect.undefined)

/** Makes one saved tree on a site beside the tree that is there. */
const makeOne = Effect.fnUntraced(function*(
  trees: OpenTrees,
  sandboxId: SandboxId,
  saved: Effect.Success<ReturnType<typeof TreesArchive.read>>,
  { remote, repo, submodule }: Source,
  folderNames: ReadonlyArray<RepoName>,
  forget: Forget
) {
  const { folders, limits, paths, place } = trees
  const found = saved.find(({ tree }) => sameRepo(tree.repo, repo))
  if (found === undefined) return yield* otherRepositories()
  const { pack, tree } = found
  const key: TreeKey = { sandboxId, repo }
  const here = forget === "publication" ? undefined : yield* remembered(trees, key)
  const known = forget === "publication"
    ? { ...tree, published: null, pushed: [] }
    : { ...tree, ...here === undefined ? {} : Push.joined(tree, here) }
  const commit = yield* fetchIn(trees)(repo, remote, tree.baseSha)
  if (commit.sha !== tree.baseSha) return yield* new CheckpointDamaged({ detail: "It starts from what is no commit." })
  const making = TreePaths.siteOf(paths, key, commit, TreePaths.folder(repo, folderNames), tree.baseRef, tree.preparedAt)
  yield* folders.open(sandboxId)
  yield* openSite(paths, making)
  yield* Effect.addFinalizer(() => closeSite(trees, making))
  const bytes = yield* fitting(trees, key)(Restoring.make(place, making, known, pack, limits))
  yield* fitting(trees, key)(TreeContents.complete(trees, making, tree.sha, remote, submodule)).pipe(
    Effect.catchTag(
      "GitFailed",
      explained(
        "look at a restored tree",
        repo,
        ({ reason }) => new CloneFailed({ repo, detail: "The tree could not be restored.", retryable: reason === "timeout" })
      )
    )
  )
  return { making, bytes, sha: tree.sha }
})

/** Makes all saved trees on sites, and then moves them to their places. `onPlace` runs before the first move. */
const restored = Effect.fnUntraced(function*<E, R>(
  trees: OpenTrees,
  sandboxId: SandboxId,
  content: Stream.Stream<Uint8Array, E, R>,
  sources: ReadonlyArray<Source>,
  forget: Forget,
  onPlace: Effect.Effect<void>
) {
  const { limits, paths, place } = trees
  const mark = TreePaths.restoringMark(paths, sandboxId)
  const saved = yield* TreesArchive.read(content, mark, Math.max(MAXIMUM_SAVED_BYTES, limits.treeBytes))
  if (saved.length !== sources.length) return yield* otherRepositories()
  const folderNames = sources.map(({ repo }) => repo)
  const makings = yield* Effect.forEach(sources, (source) => makeOne(trees, sandboxId, saved, source, folderNames, forget))
  yield* onPlace
  yield* Effect.uninterruptible(
    Effect.forEach(
      makings,
      ({ making }) => exclusive(place.put(making), trees, { sandboxId, repo: making.repo }),
      { discard: true }
    )
  )
  return makings.map(({ bytes, making: { baseRef, baseSha, repo }, sha }) => ({ repo, sha, bytes, baseSha, baseRef }))
})

/** Marks the sandbox, and deletes the files of a restoration that was broken off. */
const begin = ({ paths }: OpenTrees, sandboxId: SandboxId, mark: string) =>
  Effect.gen(function*() {
    const before = yield* Effect.promise(async () => ({
      isSandbox: await isThere(TreePaths.sandboxDirectory(paths, sandboxId)),
      isLeft: await isThere(mark)
    }))
    // Never without the mark, where trees may be left that are half in their places.
    const left = yield* Effect.promise(async () => {
      await mkdir(mark, { recursive: true, mode: 0o700 })
      return readdir(mark)
    })
    yield* Effect.forEach(left, (name) => deleteTree(join(mark, name)), { discard: true })
    return before
  })

export const restore = <E, R>(
  trees: OpenTrees,
  sandboxId: SandboxId,
  content: Stream.Stream<Uint8Array, E, R>,
  sources: ReadonlyArray<Source>,
  { forget }: NonNullable<Parameters<Restore>[3]> = {}
) => {
  const mark = TreePaths.restoringMark(trees.paths, sandboxId)
  let isPlacing = false
  const making = Effect.scoped(restored(trees, sandboxId, content, sources, forget, Effect.sync(() => void (isPlacing = true))))
  const undo = Effect.fnUntraced(function*(before: { readonly isSandbox: boolean; readonly isLeft: boolean }) {
    // Trees of a restoration that was broken off before are not kept.
    if (isPlacing || before.isLeft) return
    // The folder was made for the trees that could not be restored.
    if (!before.isSandbox) yield* trees.folders.remove(sandboxId)
    yield* deleteTree(mark)
  })
  const attempt = Effect.acquireUseRelease(
    begin(trees, sandboxId, mark),
    () => making,
    (before, exit) => Exit.isSuccess(exit) ? deleteTree(mark) : undo(before)
  )
  return Effect.withSpan(minded(trees.locked(sandboxId)(attempt), trees), "WorkingTrees.restore")
}
