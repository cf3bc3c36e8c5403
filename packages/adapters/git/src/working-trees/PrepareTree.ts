/** Makes the tree of a sandbox from a commit of its repository. */
import { CloneFailed, type TreeKey, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import * as DiskErrors from "@slipway/machine/node/DiskErrors"
import { Cause, Clock, Effect, Option, Queue } from "effect"
import { mkdir, rmdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { explained } from "../GitFailure.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import * as Submodules from "../tree/Submodules.ts"
import { exclusive, find, isRestoring, minded, opened, type OpenTrees } from "./OpenTrees.ts"
import * as TreeContents from "./TreeContents.ts"
import * as TreePaths from "./TreePaths.ts"

type Source = Parameters<WorkingTrees["Service"]["prepare"]>[1]

export const openSite = (paths: TreePaths.TreePaths, { sandboxId, site }: HostRepository.Making): Effect.Effect<void> =>
  Effect.promise(async () => {
    await TreePaths.ownFolder(TreePaths.sandboxDirectory(paths, sandboxId))
    await mkdir(dirname(site), { recursive: true, mode: 0o700 })
  })

export const closeSite = ({ place }: OpenTrees, making: HostRepository.Making): Effect.Effect<void> =>
  Effect.promise(() => rmdir(making.site).then(() => rmdir(dirname(making.site))).then(() => true, () => false)).pipe(
    // Nearly always all of it was moved to its place.
    Effect.flatMap((isGone) => isGone ? Effect.void : Effect.ensuring(deleteTree(dirname(making.site)), place.leave(making))),
    Effect.ignoreCause
  )

/** Where the sandbox's folder has a size of its own, free space elsewhere would not help. */
export const fitting =
  ({ folders, tooLarge }: OpenTrees, { repo, sandboxId }: TreeKey) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | CloneFailed, R> =>
    Effect.catchCause(
      self,
      Effect.fnUntraced(function*(cause) {
        if (DiskErrors.of(Cause.squash(cause))?.isFull === true && (yield* folders.isSized(sandboxId))) {
          return yield* new CloneFailed({ repo, ...tooLarge })
        }
        return yield* Effect.failCause(cause)
      })
    )

/** Deletes the trees of a restoration that was broken off. */
const clearLeft = (trees: OpenTrees, sandboxId: SandboxId) =>
  Effect.gen(function*() {
    if (!(yield* isRestoring(trees, sandboxId))) return
    yield* deleteTree(join(TreePaths.sandboxDirectory(trees.paths, sandboxId), "git"))
    yield* deleteTree(TreePaths.restoringMark(trees.paths, sandboxId))
  }).pipe(trees.locked(sandboxId))

const baseOf = Effect.fnUntraced(function*(repository: HostRepository.HostRepository) {
  const { baseRef, baseSha } = repository
  const contents = yield* TreeContents.read(repository)
  if (contents === null) {
    const submodules = yield* Submodules.inBase(repository)
    return { baseSha, baseRef, ...(submodules.length === 0 ? {} : { submodules }) }
  }
  const { empty, missing = [], pointers } = contents
  return {
    baseSha,
    baseRef,
    ...(empty.length === 0 ? {} : { submodules: empty.map(({ path }) => path), emptySubmodules: empty }),
    ...(pointers === 0 ? {} : { lfsPointers: pointers }),
    ...(missing.length === 0 ? {} : { lfsMissing: missing })
  }
})

/** Checks out on a site of its own: a process of a worker that was killed may still be at work on another. */
const makeOn = (
  trees: OpenTrees,
  key: TreeKey,
  making: HostRepository.Making,
  { remote, submodule }: Pick<Source, "remote" | "submodule">
) =>
  HostRepository.layOutSite(making).pipe(
    Effect.andThen(trees.place.checkOut(making, HostRepository.checkoutOf(making))),
    Effect.andThen(TreeContents.complete(trees, making, making.baseSha, remote, submodule)),
    Effect.andThen(trees.place.put(making)),
    // Files that cannot be deleted now, because an orphan still writes to them, are deleted with the sandbox.
    fitting(trees, key),
    Effect.ensuring(closeSite(trees, making)),
    Effect.catchTag(
      "GitFailed",
      explained("check out a commit", key.repo, ({ reason }) =>
        new CloneFailed({ repo: key.repo, detail: "The commit could not be checked out.", retryable: reason === "timeout" }))
    )
  )

export const prepare = Effect.fn("WorkingTrees.prepare")(
  function*(trees: OpenTrees, key: TreeKey, source: Source) {
    const { folders, growth, mirrors, paths, place } = trees
    const { repo, sandboxId } = key
    yield* folders.reopen(sandboxId)
    const existing = yield* opened(trees, key)
    if (Option.isSome(existing) && (yield* place.isThere(sandboxId, [TreePaths.gitDirectory(paths, key)]))) {
      return yield* baseOf(existing.value)
    }

    const commit = yield* mirrors.fetch(repo, source.remote, source.ref, source.defaultBranch)
    const folder = TreePaths.folder(repo, source.repos)
    const making = TreePaths.siteOf(paths, key, commit, folder, commit.branch, yield* Clock.currentTimeMillis)
    yield* folders.open(sandboxId)
    yield* openSite(paths, making)
    yield* makeOn(trees, key, making, source)
    if (commit.isNew) yield* Queue.offer(growth, undefined)
    return yield* baseOf(yield* Effect.orDie(find(trees, key)))
  },
  Effect.scoped,
  exclusive,
  (self, trees, { sandboxId }) => minded(Effect.andThen(clearLeft(trees, sandboxId), self), trees)
)
