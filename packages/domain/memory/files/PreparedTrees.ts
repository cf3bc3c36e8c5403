/** The trees of the memory layer: what is known of each beside its files, which are on `MemoryDisk`. */
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
  /** What was saved here or restored. */
  readonly saved: Map<string, MemoryTree.Content>
  readonly snapshots: Map<string, MemoryCommit>
  /** What we ever pushed, by branch. */
  readonly pushed: Map<string, Set<string>>
  /** What was pushed last. */
  published: { readonly sha: string; readonly content: MemoryTree.Content } | null
}

/** The state of the layer. */
export interface PreparedTrees {
  readonly disk: MemoryDisk["Service"]
  readonly repositories: MemoryRepositories["Service"]
  /** By sandbox, then by repository in small letters. */
  readonly sandboxes: Map<SandboxId, Map<string, PreparedTree>>
  readonly restoring: Set<SandboxId>
  /** Commits that trees started from, by repository and id. */
  readonly fetched: Map<string, MemoryTree.Content>
}

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

export const find = (trees: PreparedTrees, key: TreeKey): Effect.Effect<PreparedTree, FileNotFound> =>
  Effect.suspend(() => {
    const tree = known(trees, key)
    return tree === undefined ? Effect.fail(new FileNotFound()) : Effect.succeed(tree)
  })

export const clear = ({ files }: MemoryDisk["Service"], folder: string): void => {
  for (const path of files.keys()) if (path.startsWith(`${folder}/`)) files.delete(path)
}

export const checkOut = (disk: MemoryDisk["Service"], root: string, { executables, files }: MemoryTree.Content): void => {
  clear(disk, root)
  for (const [path, content] of files) disk.files.set(`${root}/${path}`, content)
  for (const path of executables) disk.executables.add(`${root}/${path}`)
}

export const contentOf = (
  commit: Pick<MemoryCommit, "files"> & { readonly executables?: Iterable<string> } | undefined
): MemoryTree.Content => ({
  files: new Map(Object.entries(commit?.files ?? {})),
  executables: new Set(commit?.executables)
})

/** The repository's name; with the owner in front where two repositories share it. No name of a repository has a `+`. */
export const folderOf = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}
