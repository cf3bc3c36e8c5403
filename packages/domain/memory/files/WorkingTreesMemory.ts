/** `WorkingTrees` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CloneFailed, WorkingTrees } from "../../src/files/ports/WorkingTrees.ts"
import { missingStart, NO_COMMITS } from "../../src/source/rules/StartCommit.ts"
import { isCommitId, isRefName } from "../../src/source/schema/Naming.ts"
import { MemoryDisk, workspaceOf } from "./MemoryDisk.ts"
import { MemoryRepositories, type MemoryRepository } from "./MemoryRepositories.ts"
import * as PreparedTrees from "./PreparedTrees.ts"
import { publishes } from "./TreePublishing.ts"
import { readsOfCommits, readsOfFiles } from "./TreeReads.ts"
import { restores, saves } from "./TreeSaving.ts"

/** A branch wins over a tag of the same name. A sentence if there is no start. */
const resolve = (
  { branches, commits, tags }: MemoryRepository,
  ref: string | undefined,
  defaultBranch: string
): { readonly sha: string; readonly branch: string | null } | string => {
  const name = ref ?? defaultBranch
  if (!isRefName(name)) return "The branch, tag or commit has no valid name."
  if (ref !== undefined && isCommitId(ref)) {
    const sha = ref.toLowerCase()
    return commits.has(sha) ? { sha, branch: null } : "The commit does not exist in the repository."
  }
  const [tip, tagged] = [branches.get(name), tags.get(name)]
  if (tip !== undefined) return { sha: tip, branch: name }
  if (tagged !== undefined) return { sha: tagged, branch: null }
  if (branches.size + tags.size === 0) return NO_COMMITS
  return missingStart(name, ref)
}

/**
 * Trees on `MemoryDisk` from repositories in `MemoryRepositories`, for tests and for embedding. Files are text without links, renames
 * are found only by equal content, and agents have no git of their own. Passes `trees` of the contract suite; the rest needs a real
 * disk.
 */
export const layer = Layer.effect(
  WorkingTrees,
  Effect.gen(function*() {
    const trees = PreparedTrees.make(yield* MemoryDisk, yield* MemoryRepositories)
    const { disk, fetched, repositories, restoring, sandboxes } = trees

    return WorkingTrees.of({
      folder: PreparedTrees.folderOf,
      prepare: Effect.fn("WorkingTrees.prepare")(function*(key, { defaultBranch, ref, remote, repos }) {
        const preparedAt = yield* Clock.currentTimeMillis
        const existing = PreparedTrees.known(trees, key)
        if (existing !== undefined) return { baseSha: existing.baseSha, baseRef: existing.baseRef }
        const repository = repositories.at(remote.url)
        const found = repository === undefined ? "The repository was not found." : resolve(repository, ref, defaultBranch)
        if (typeof found === "string") return yield* new CloneFailed({ repo: key.repo, detail: found, retryable: false })
        const tree: PreparedTrees.PreparedTree = {
          root: `${workspaceOf(key.sandboxId)}/${PreparedTrees.folderOf(key.repo, repos)}`,
          baseSha: found.sha,
          baseRef: found.branch,
          base: PreparedTrees.contentOf(repository?.commits.get(found.sha)),
          preparedAt,
          saved: new Map(),
          snapshots: new Map(),
          pushed: new Map(),
          published: null
        }
        fetched.set(`${remote.url} ${found.sha}`, tree.base)
        PreparedTrees.checkOut(disk, tree.root, tree.base)
        const others = sandboxes.get(key.sandboxId) ?? new Map<string, PreparedTrees.PreparedTree>()
        sandboxes.set(key.sandboxId, others.set(key.repo.toLowerCase(), tree))
        return { baseSha: tree.baseSha, baseRef: tree.baseRef }
      }),
      ...readsOfFiles(trees),
      ...readsOfCommits(trees),
      ...publishes(trees),
      ...saves(trees),
      ...restores(trees),
      has: (sandboxId, repos = []) =>
        Effect.sync(() =>
          sandboxes.has(sandboxId) && !restoring.has(sandboxId) &&
          repos.every((repo) => PreparedTrees.known(trees, { sandboxId, repo }) !== undefined)
        ),
      isWhole: () => Effect.succeed(true),
      remove: (sandboxId) =>
        Effect.sync(() => {
          sandboxes.delete(sandboxId)
          PreparedTrees.clear(disk, workspaceOf(sandboxId))
        }),
      sandboxes: Effect.sync(() => Array.from(sandboxes.keys())),
      makeRoom: Effect.void
    })
  })
)
