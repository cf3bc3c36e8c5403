/** The trees of the memory layer: their data besides the files, which are on `MemoryDisk`. */
import * as Effect from "effect/Effect"
import { FileNotFound, type TreeKey } from "../../src/files/ports/WorkingTrees.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { sameRepo } from "../../src/source/schema/Naming.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"
import type { MemoryDisk } from "./MemoryDisk.ts"
import type { MemoryCommit, MemoryRepositories } from "./MemoryRepositories.ts"
import type * as MemoryTree from "./MemoryTree.ts"

/** A tree of the memory layer. */
export interface PreparedTree {
  readonly root: string
  readonly baseSha: string
  readonly baseRef: string | null
  readonly base: MemoryTree.Content
  readonly preparedAt: number
  /** Contents that were saved here or restored. */
  readonly saved: Map<string, MemoryTree.Content>
  readonly snapshots: Map<string, MemoryCommit>
  /** Our pushed commits by branch. */
  readonly pushed: Map<string, Set<string>>
  /** The last push. */
  published: { readonly sha: string; readonly content: MemoryTree.Content } | null
}

/** The state of the layer. */
export interface PreparedTrees {
  readonly disk: MemoryDisk["Service"]
  readonly repositories: MemoryRepositories["Service"]
  /** By sandbox, then by repository in lower case. */
  readonly sandboxes: Map<SandboxId, Map<string, PreparedTree>>
  readonly restoring: Set<SandboxId>
  /** Commits that trees started from, by repository and id. */
  readonly fetched: Map<string, MemoryTree.Content>
}

/** An empty state. */
export const make = (disk: MemoryDisk["Service"], repositories: MemoryRepositories["Service"]): PreparedTrees => ({
  disk,
  repositories,
  sandboxes: new Map(),
  restoring: new Set(),
  fetched: new Map()
})

/** The tree, unless its sandbox is being restored. */
export const known = ({ restoring, sandboxes }: PreparedTrees, { repo, sandboxId }: TreeKey): PreparedTree | undefined =>
  restoring.has(sandboxId) ? undefined : sandboxes.get(sandboxId)?.get(repo.toLowerCase())

/** The tree. Fails with `FileNotFound` if it is unknown or being restored. */
export const find = (trees: PreparedTrees, key: TreeKey): Effect.Effect<PreparedTree, FileNotFound> =>
  Effect.suspend(() => {
    const tree = known(trees, key)
    return tree === undefined ? Effect.fail(new FileNotFound()) : Effect.succeed(tree)
  })

/** Removes all files below a folder. */
export const clear = ({ files }: MemoryDisk["Service"], folder: string): void => {
  for (const path of files.keys()) if (path.startsWith(`${folder}/`)) files.delete(path)
}

/** Writes all files of a content below a folder. */
export const checkOut = (disk: MemoryDisk["Service"], root: string, { executables, files }: MemoryTree.Content): void => {
  clear(disk, root)
  for (const [path, content] of files) disk.files.set(`${root}/${path}`, content)
  for (const path of executables) disk.executables.add(`${root}/${path}`)
}

/** The content of a commit. */
export const contentOf = (
  commit: Pick<MemoryCommit, "files"> & { readonly executables?: Iterable<string> } | undefined
): MemoryTree.Content => ({
  files: new Map(Object.entries(commit?.files ?? {})),
  executables: new Set(commit?.executables)
})

/** The repository's name, with its owner in front if two repositories share it. Repository names never contain a `+`. */
export const folderOf = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}
