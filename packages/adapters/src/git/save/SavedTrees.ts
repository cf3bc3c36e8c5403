/**
 * Saves the trees of a sandbox, and restores them: all of them, or none. While they are restored, and when that was broken off,
 * the sandbox has a mark and no trees.
 */
import {
  CannotSave,
  CheckpointDamaged,
  type CloneFailed,
  type FileNotFound,
  MAXIMUM_SAVED_BYTES,
  OnBehalfOf,
  type SaveOptions,
  type TreeKey,
  type TreesUnavailable,
  type WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Exit, Scope, type Stream } from "effect"
import { mkdir, readdir } from "node:fs/promises"
import { join } from "node:path"
import type { SizedFolders } from "../../hosts/box/SizedFolders.ts"
import { deleteTree } from "../../node/DeleteTree.ts"
import { isThere } from "../../node/IsThere.ts"
import type * as FairScheduler from "../FairScheduler.ts"
import type * as Mirrors from "../mirror/Mirrors.ts"
import * as Push from "../publish/Push.ts"
import type { BoxGit } from "../tree/BoxGit.ts"
import type * as HostRepository from "../tree/HostRepository.ts"
import type { TreePlace } from "../tree/Tree.ts"
import * as Restoring from "./Restoring.ts"
import * as Saving from "./Saving.ts"
import * as TreesArchive from "./TreesArchive.ts"

/** All that saving the trees of a sandbox may take. */
const SAVING_WITHIN = "1 minute"

type Trees = WorkingTrees["Service"]
type Fetch = Effect.Success<ReturnType<typeof Mirrors.make>>["fetch"]

/** Where trees are and how they are made, as for those that nobody saved. */
interface Options {
  boxGit(sandboxId: SandboxId): BoxGit
  readonly folders: SizedFolders
  readonly place: TreePlace
  /** The commit of a repository. */
  fetch(repo: RepoName, remote: Remote, sha: string): ReturnType<Fetch>
  readonly limits: Restoring.Limits
  readonly turn: ReturnType<typeof FairScheduler.make>
  /** By sandbox, or by what `exclusive` goes by. */
  locked(key: string): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  minded<A, E, R>(self: Effect.Effect<A, E, R>, key?: TreeKey): Effect.Effect<A, E | TreesUnavailable, R>
  exclusive<A, E, R>(self: Effect.Effect<A, E, R>, key: TreeKey): Effect.Effect<A, E, R>
  fitting(key: TreeKey): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | CloneFailed, R>
  find(key: TreeKey): Effect.Effect<HostRepository.HostRepository, FileNotFound>
  /** What the repository remembers that is there now, if one is. */
  remembered(key: TreeKey): Effect.Effect<Push.Memory | undefined>
  folder(repo: RepoName, repos: ReadonlyArray<RepoName>): string
  sandboxDirectory(sandboxId: SandboxId): string
  restoringMark(sandboxId: SandboxId): string
  readonly sites: {
    of(key: TreeKey, commit: Mirrors.FetchedCommit, folder: string, baseRef: string | null, preparedAt: number): HostRepository.Making
    open(making: HostRepository.Making): Effect.Effect<void>
    close(making: HostRepository.Making): Effect.Effect<void>
  }
}

export const make = (
  {
    boxGit,
    exclusive,
    fetch,
    find,
    fitting,
    folder,
    folders,
    limits,
    locked,
    minded,
    place,
    remembered,
    restoringMark,
    sandboxDirectory,
    sites,
    turn
  }: Options
) => {
  const save = Effect.fn("WorkingTrees.save")(
    function*(
      sandboxId: SandboxId,
      repos: ReadonlyArray<SaveOptions>,
      { maximumBytes = MAXIMUM_SAVED_BYTES }: { readonly maximumBytes?: number } = {}
    ) {
      const late = (repo: string) => new CannotSave({ repo, detail: `It could not be saved within ${SAVING_WITHIN}.`, retryable: true })
      const grant = yield* OnBehalfOf
      // Locks have scopes of their own.
      const files = yield* Effect.scope
      const trees = yield* Effect.forEach(repos, (asked) => {
        const key: TreeKey = { sandboxId, repo: asked.repo }
        return Effect.flatMap(find(key), (repository) =>
          turn(grant, sandboxId, SAVING_WITHIN)(
            Scope.provide(
              Saving.save(repository, boxGit(sandboxId), asked, maximumBytes, limits.treeBytes),
              files
            ),
            () => late(asked.repo)
          )).pipe((self) => exclusive(self, key), (self) => minded(self, key))
      }).pipe(Effect.timeoutOrElse({ duration: SAVING_WITHIN, orElse: () => Effect.fail(late(repos[0]?.repo ?? "")) }))
      const { content, size } = yield* TreesArchive.write(trees)
      if (size > maximumBytes) {
        return yield* new CannotSave({
          repo: repos[0]?.repo ?? "",
          detail: "The trees are larger than they may be together.",
          retryable: false
        })
      }
      return {
        repos: trees.map(({ tree: { repo, sha } }) => ({ repo, sha })),
        changes: trees.flatMap(({ changes }) => changes === null ? [] : [changes]),
        content
      }
    },
    (self) => minded(self)
  )

  /** Makes what was saved, on sites beside what is there, and then puts it in its place. */
  const restored = Effect.fnUntraced(function*<E, R>(
    sandboxId: SandboxId,
    content: Stream.Stream<Uint8Array, E, R>,
    sources: Parameters<Trees["restore"]>[2],
    forget: "publication" | undefined,
    onPlace: Effect.Effect<void>
  ) {
    const saved = yield* TreesArchive.read(content, restoringMark(sandboxId), Math.max(MAXIMUM_SAVED_BYTES, limits.treeBytes))
    const others = new CheckpointDamaged({ detail: "It is of other repositories." })
    if (saved.length !== sources.length) return yield* others
    const folderNames = sources.map(({ repo }) => repo)
    const makings = yield* Effect.forEach(
      sources,
      Effect.fnUntraced(function*({ remote, repo }) {
        const found = saved.find(({ tree }) => sameRepo(tree.repo, repo))
        if (found === undefined) return yield* others
        const { pack, tree } = found
        const key: TreeKey = { sandboxId, repo }
        const here = forget === "publication" ? undefined : yield* remembered(key)
        const known = forget === "publication"
          ? { ...tree, published: null, pushed: [] }
          : { ...tree, ...here === undefined ? {} : Push.joined(tree, here) }
        const commit = yield* fetch(repo, remote, tree.baseSha)
        if (commit.sha !== tree.baseSha) return yield* new CheckpointDamaged({ detail: "It starts from what is no commit." })
        const making = sites.of(key, commit, folder(repo, folderNames), tree.baseRef, tree.preparedAt)
        yield* folders.open(sandboxId)
        yield* sites.open(making)
        yield* Effect.addFinalizer(() => sites.close(making))
        const bytes = yield* fitting(key)(Restoring.make(place, making, known, pack, limits))
        return { making, bytes, sha: tree.sha }
      })
    )
    yield* onPlace
    yield* Effect.uninterruptible(
      Effect.forEach(
        makings,
        ({ making }) => exclusive(place.put(making), { sandboxId, repo: making.repo }),
        { discard: true }
      )
    )
    return makings.map(({ bytes, making: { baseRef, baseSha, repo }, sha }) => ({ repo, sha, bytes, baseSha, baseRef }))
  })

  const restore: Trees["restore"] = (sandboxId, content, sources, { forget } = {}) => {
    const mark = restoringMark(sandboxId)
    let isPlacing = false
    const making = Effect.scoped(restored(sandboxId, content, sources, forget, Effect.sync(() => void (isPlacing = true))))
    const undo = Effect.fnUntraced(function*(before: { readonly isSandbox: boolean; readonly isLeft: boolean }) {
      // What was broken off before is no tree to be kept.
      if (isPlacing || before.isLeft) return
      // Made for what could not be restored.
      if (!before.isSandbox) yield* folders.remove(sandboxId)
      yield* deleteTree(mark)
    })
    const attempt = Effect.acquireUseRelease(
      Effect.gen(function*() {
        const before = yield* Effect.promise(async () => ({
          isSandbox: await isThere(sandboxDirectory(sandboxId)),
          isLeft: await isThere(mark)
        }))
        // Never without the mark, where trees may be left that are half in their places.
        const left = yield* Effect.promise(async () => {
          await mkdir(mark, { recursive: true, mode: 0o700 })
          return readdir(mark)
        })
        yield* Effect.forEach(left, (name) => deleteTree(join(mark, name)), { discard: true })
        return before
      }),
      () => making,
      (before, exit) => Exit.isSuccess(exit) ? deleteTree(mark) : undo(before)
    )
    return Effect.withSpan(minded(locked(sandboxId)(attempt)), "WorkingTrees.restore")
  }

  return { save, restore }
}
