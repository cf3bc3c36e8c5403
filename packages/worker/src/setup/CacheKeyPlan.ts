/** The grant, repository and key of the cache that a repository's setup uses (docs/decisions/17), if it uses one. */
import { type CachePlace, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import { cacheKeyOf, keyFiles, LOCK_FILES } from "@slipway/domain/environment/rules/CacheKey"
import type { Environment } from "@slipway/domain/environment/rules/Environment"
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { MAX_CHANGES } from "@slipway/domain/files/schema/FileTree"
import type { Box, Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option } from "effect"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import type { RepositoryEnvironment } from "./Environments.ts"

/** The most lock files of a tree: some repositories have one for each of thousands of modules. */
const MAX_LOCK_FILES = 10_000

/** The files of the key in the commit that the tree started from. `null`: too many files. */
const filesOf = Effect.fnUntraced(function*(tree: TreeKey, { cacheKey }: Environment) {
  const trees = yield* WorkingTrees
  if (cacheKey === null) return yield* trees.findBase(tree, LOCK_FILES, { maximum: MAX_LOCK_FILES })
  const files = yield* trees.readBase(tree, cacheKey, { maximumBytes: 0 })
  return new Map(Array.from(files, ([path, { blob }]) => [path, blob]))
})

/** Whether files of the key changed since that commit. `true` also when the changes are not known completely. */
const differs = Effect.fnUntraced(function*(tree: TreeKey, environment: Environment) {
  const trees = yield* WorkingTrees
  const { files, partialWarnings } = yield* trees.changes(tree)
  const paths = files.flatMap(({ path, previousPath }) => previousPath === null ? [path] : [path, previousPath])
  return partialWarnings.length > 0 || files.length >= MAX_CHANGES || keyFiles(environment, paths).length > 0
})

/**
 * The place of the cache; `null`: the setup uses no cache. `isFresh`: no agent has worked in the tree. A tree with work in it uses
 * the cache as long as the files of the key are unchanged.
 */
export const placeOf = Effect.fn("CacheKeyPlan.placeOf")(
  function*(
    leased: LeasedSandbox,
    box: Box,
    { environment, folder, repo }: Pick<RepositoryEnvironment, "folder" | "repo"> & { readonly environment: Environment },
    programs: Programs,
    isFresh: boolean
  ) {
    const caches = yield* Effect.serviceOption(SetupCaches)
    if (Option.isNone(caches) || environment.cache.length === 0 || environment.setup.length === 0) return null
    const tree = { sandboxId: box.sandboxId, repo }
    const files = yield* filesOf(tree, environment)
    if (files === null) {
      yield* Effect.logWarning("a setup is not cached: its repository has too many lock files", { repo })
      return null
    }
    if (!isFresh && (yield* differs(tree, environment))) return null
    const { sandbox: { grantId } } = yield* leased.view
    const place: CachePlace = {
      grantId,
      repo,
      key: cacheKeyOf({ ...environment, files, image: programs.id, folder: folder.slice(box.workspace.length) })
    }
    return place
  },
  Effect.catchTag(
    ["FileNotFound", "TreesUnavailable"],
    (error) => Effect.as(Effect.logWarning("a setup is not cached", { reason: error.message }), null)
  )
)
