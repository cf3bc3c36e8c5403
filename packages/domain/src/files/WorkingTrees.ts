/**
 * Port: the working trees of the sandboxes on this machine. The agent owns what is in them while we read, so nothing
 * in a tree is trusted: not its links, not its `.git`. Checked by `testing/WorkingTreesContract`.
 */
import { Clock, Context, Effect, Layer, Schema, type Scope, Stream } from "effect"
import { sha1 } from "../Digest.ts"
import type { SandboxId } from "../sandbox/SandboxId.ts"
import { type MemoryCommit, MemoryRepositories, type MemoryRepository, shaOf } from "../source/MemoryRepositories.ts"
import { isCommitId, isRefName, type RepoName, sameRepo } from "../source/RepoRef.ts"
import type { Remote } from "../source/SourceHost.ts"
import { FileProtected, isProtected } from "./FileRules.ts"
import type { ChangedFiles, FileTree } from "./FileTree.ts"
import { MemoryDisk } from "./MemoryDisk.ts"
import * as MemoryTree from "./MemoryTree.ts"

/** Nothing is there, or the sandbox has no such tree on this machine. */
export class FileNotFound extends Schema.TaggedError<FileNotFound>()("FileNotFound", {}) {
  override get message() {
    return "No such file or directory."
  }
}
/** Retrying does not help. */
export class IsDirectory extends Schema.TaggedError<IsDirectory>()("IsDirectory", {}) {
  override get message() {
    return "The path is a directory."
  }
}
/** Retrying does not help. */
export class NotADirectory extends Schema.TaggedError<NotADirectory>()("NotADirectory", {}) {
  override get message() {
    return "The path is not a directory."
  }
}
/** Larger than the caller allows. Retrying does not help. */
export class FileTooLarge extends Schema.TaggedError<FileTooLarge>()("FileTooLarge", { maximumBytes: Schema.Int }) {
  override get message() {
    return `The file is larger than ${this.maximumBytes} bytes.`
  }
}

/** The repository could not be fetched or the commit does not exist. `retryable`: trying again may help. */
export class CloneFailed extends Schema.TaggedError<CloneFailed>()("CloneFailed", {
  repo: Schema.String,
  /** A sentence for people, free of secrets. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not clone ${this.repo}: ${this.detail}`
  }
}

/** The disk of this machine's trees is full, read-only or broken. `retryable`: it may succeed once room is made. */
export class TreesUnavailable extends Schema.TaggedError<TreesUnavailable>()("TreesUnavailable", {
  /** Sentences for people: what it is and what to do. They name no path. */
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return this.detail
  }
}

/** A push was refused by the other side, did not arrive, or was too large to try. */
export class PushFailed extends Schema.TaggedError<PushFailed>()("PushFailed", {
  repo: Schema.String,
  detail: Schema.String,
  retryable: Schema.Boolean
}) {
  override get message() {
    return `could not push to ${this.repo}: ${this.detail}`
  }
}

/** The tree holds nothing beyond the commit it started from. */
export class NoChanges extends Schema.TaggedError<NoChanges>()("NoChanges", { repo: Schema.String }) {
  override get message() {
    return "no sandbox changes to publish"
  }
}

/** One repository's tree within a sandbox. `repo` is spelled as the sandbox spells it. */
export interface TreeKey {
  readonly sandboxId: SandboxId
  readonly repo: RepoName
}

/** The grant for which trees are read or committed: a machine's git is shared out fairly between grants. */
export const OnBehalfOf = Context.Reference<string>("@slipway/domain/OnBehalfOf", { defaultValue: () => "" })

/** An open file. Its bytes can be read once. */
export interface OpenedFile {
  /** Bytes, by `fstat` of the open descriptor. */
  readonly size: number
  /** Exactly `size` bytes: growth is cut; a shortfall fails the stream, so that the connection is aborted. */
  readonly bytes: Stream.Stream<Uint8Array, FileNotFound>
}

/** One side of a comparison: `null` when the file is not there. */
export type FileVersion = {
  /** `null` when it is binary. */
  readonly content: string | null
  /** The id git gives a blob of these bytes, hex. */
  readonly hash: string
  /** `working`, or the commit that holds it. */
  readonly ref: string
  /** Bytes. */
  readonly size: number
  readonly binary: boolean
} | null

/** How a tree is committed. */
export interface SnapshotOptions {
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  /**
   * What the agent's own git has beyond the commit the tree started from, as written on the agent's side: nothing of it is
   * trusted. The id of its newest commit and a line feed, then a pack of all objects that `baseSha` lacks; empty without any.
   */
  readonly history?: (baseSha: string) => Stream.Stream<Uint8Array>
}

/** Checked by `testing/WorkingTreesContract`. */
export class WorkingTrees extends Context.Service<WorkingTrees, {
  /** The host folder that holds all trees of a sandbox: what a box shows as its workspace. */
  workspace(sandboxId: SandboxId): string
  /** A repository's folder below the workspace: its name, unless two of the sandbox share it. Folders never collide. */
  folder(repo: RepoName, repos: ReadonlyArray<RepoName>): string
  /** Makes the tree at `ref` (absent: `defaultBranch`), or returns the one that is there. Safe to repeat after a crash at any point. */
  prepare(key: TreeKey, source: {
    readonly remote: Remote
    readonly ref: string | undefined
    readonly defaultBranch: string
    readonly repos: ReadonlyArray<RepoName>
  }): Effect.Effect<{
    readonly baseSha: string
    /** The branch it is the tip of; `null` when a tag or a commit was asked for. */
    readonly baseRef: string | null
  }, CloneFailed | TreesUnavailable>
  /**
   * The immediate entries of one directory. `directory` is normalised. What differs is said by git in the sandbox's box;
   * where that cannot tell, or not in time, entries come without it and with the warning `unreadable_entries`.
   */
  list(key: TreeKey, directory: string): Effect.Effect<FileTree, FileNotFound | NotADirectory | FileProtected | TreesUnavailable>
  /** All files that differ from the commit the sandbox started from: the first `MAX_CHANGES`. */
  changes(key: TreeKey): Effect.Effect<ChangedFiles, FileNotFound | TreesUnavailable>
  /** Opens one file for streaming. `path` is normalised. The descriptor is released with the scope. */
  open(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    OpenedFile,
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable,
    Scope.Scope
  >
  /**
   * The file in the tree (`working`), in the commit published last (`head`) and in the commit the sandbox started from (`base`).
   * `FileNotFound`: there is no such tree here.
   */
  compare(key: TreeKey, path: string, maximumBytes: number): Effect.Effect<
    { readonly working: FileVersion; readonly head: FileVersion; readonly base: FileVersion },
    FileNotFound | IsDirectory | FileProtected | FileTooLarge | TreesUnavailable
  >
  /**
   * Commits the tree as it is, on the commit it started from. Equal trees with equal options give the same commit.
   * Ignored files, new environment files and repositories within the tree are left out. The agent's own commits are kept
   * where they go on from that commit and hold none of these: then only what is beyond them is committed. `PushFailed`:
   * there is more than could be pushed, or the tree is such that git cannot commit it.
   */
  snapshot(key: TreeKey, commit: SnapshotOptions): Effect.Effect<{
    readonly sha: string
    /** The branch the tree started from; `null` when it started from a tag or a commit. */
    readonly baseRef: string | null
  }, NoChanges | FileNotFound | PushFailed>
  /** Pushes `sha` to `headRef`, replacing only what we pushed there before. Pushing what is already there succeeds. */
  push(key: TreeKey, options: { readonly sha: string; readonly headRef: string; readonly remote: Remote }): Effect.Effect<void, PushFailed>
  /** Whether the sandbox has trees on this machine. */
  has(sandboxId: SandboxId): Effect.Effect<boolean>
  /** Deletes every tree of the sandbox. Safe to repeat. */
  remove(sandboxId: SandboxId): Effect.Effect<void, TreesUnavailable>
  /** Sandboxes with trees on this machine, for the reaper. */
  readonly sandboxes: Effect.Effect<ReadonlyArray<SandboxId>>
  /** Deletes what no tree needs and what can be had again, whatever its age. Trees stay as they are. Safe at any moment. */
  readonly makeRoom: Effect.Effect<void, TreesUnavailable>
}>()("@slipway/domain/WorkingTrees") {
  /**
   * Trees on `MemoryDisk` of repositories in `MemoryRepositories`; for tests and for embedding. Files are text, there are
   * no links, renames are found by equal content alone, and agents have no git of their own. Passes `trees` of the contract suite; the rest needs a real disk.
   */
  static readonly layerMemory = Layer.effect(
    WorkingTrees,
    Effect.gen(function*() {
      const disk = yield* MemoryDisk
      const repositories = yield* MemoryRepositories
      const sandboxes = new Map<SandboxId, Map<string, PreparedTree>>()

      const workspace = (sandboxId: SandboxId) => `/memory/work/${sandboxId}`
      const clear = (folder: string) => {
        for (const path of disk.files.keys()) if (path.startsWith(`${folder}/`)) disk.files.delete(path)
      }
      const known = ({ repo, sandboxId }: TreeKey) => sandboxes.get(sandboxId)?.get(repo.toLowerCase())
      const find = (key: TreeKey) =>
        Effect.suspend(() => {
          const tree = known(key)
          return tree === undefined ? Effect.fail(new FileNotFound()) : Effect.succeed(tree)
        })

      const file = Effect.fnUntraced(function*(tree: PreparedTree, path: string, maximumBytes: number) {
        const now = MemoryTree.read(disk, tree.root)
        const content = now.files.get(path)
        if (content === undefined) return yield* MemoryTree.isDirectory(now, path) ? new IsDirectory() : new FileNotFound()
        const bytes = utf8.encode(content)
        if (bytes.length > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
        return { content, bytes }
      })

      return WorkingTrees.of({
        workspace,
        folder: folderOf,
        prepare: Effect.fn("WorkingTrees.prepare")(function*(key, { defaultBranch, ref, remote, repos }) {
          const preparedAt = yield* Clock.currentTimeMillis
          const existing = known(key)
          if (existing !== undefined) return { baseSha: existing.baseSha, baseRef: existing.baseRef }
          const repository = repositories.at(remote.url)
          const found = repository === undefined ? "The repository was not found." : resolve(repository, ref, defaultBranch)
          if (typeof found === "string") return yield* new CloneFailed({ repo: key.repo, detail: found, retryable: false })
          const tree: PreparedTree = {
            root: `${workspace(key.sandboxId)}/${folderOf(key.repo, repos)}`,
            baseSha: found.sha,
            baseRef: found.branch,
            base: contentOf(repository?.commits.get(found.sha)),
            preparedAt,
            snapshots: new Map(),
            pushed: new Map(),
            published: null
          }
          clear(tree.root)
          for (const [path, content] of tree.base.files) disk.files.set(`${tree.root}/${path}`, content)
          for (const path of tree.base.executables) disk.executables.add(`${tree.root}/${path}`)
          const trees = sandboxes.get(key.sandboxId) ?? new Map<string, PreparedTree>()
          sandboxes.set(key.sandboxId, trees.set(key.repo.toLowerCase(), tree))
          return { baseSha: tree.baseSha, baseRef: tree.baseRef }
        }),
        list: Effect.fn("WorkingTrees.list")(function*(key, directory) {
          if (isProtected(directory)) return yield* new FileProtected()
          const tree = yield* find(key)
          const now = MemoryTree.read(disk, tree.root)
          if (now.files.has(directory)) return yield* new NotADirectory()
          const published = new Set(tree.published?.content.files.keys())
          const listing = MemoryTree.list(tree.base, now, published, directory, (path) => disk.writtenAtMillis(`${tree.root}/${path}`))
          return listing ?? (yield* new FileNotFound())
        }),
        changes: Effect.fn("WorkingTrees.changes")(function*(key) {
          const tree = yield* find(key)
          return MemoryTree.changes(tree.base, MemoryTree.read(disk, tree.root), new Set(tree.published?.content.files.keys()))
        }),
        open: Effect.fn("WorkingTrees.open")(function*(key, path, maximumBytes) {
          if (isProtected(path)) return yield* new FileProtected()
          const tree = yield* find(key)
          let { bytes, content } = yield* file(tree, path, maximumBytes)
          const size = bytes.length
          return {
            size,
            bytes: Stream.unfold(0, (position) =>
              Effect.suspend(() => {
                if (position === size) return Effect.undefined
                // What was deleted is still there for whoever has opened it.
                const now = disk.files.get(`${tree.root}/${path}`) ?? content
                if (now !== content) [bytes, content] = [utf8.encode(now), now]
                const chunk = bytes.subarray(position, Math.min(size, position + CHUNK_BYTES))
                return chunk.length === 0 ? Effect.fail(new FileNotFound()) : Effect.succeed([chunk, position + chunk.length] as const)
              }))
          }
        }),
        compare: Effect.fn("WorkingTrees.compare")(function*(key, path, maximumBytes) {
          if (isProtected(path)) return yield* new FileProtected()
          const tree = yield* find(key)
          const working = yield* file(tree, path, maximumBytes).pipe(
            Effect.map(({ content }) => content),
            Effect.catchTag("FileNotFound", () => Effect.undefined)
          )
          const base = tree.base.files.get(path)
          const { published } = tree
          const versions = {
            working: versionOf(working, "working"),
            head: published === null ? versionOf(base, tree.baseSha) : versionOf(published.content.files.get(path), published.sha),
            base: versionOf(base, tree.baseSha)
          }
          const isTooLarge = Object.values(versions).some((version) => version !== null && version.size > maximumBytes)
          return isTooLarge ? yield* new FileTooLarge({ maximumBytes }) : versions
        }),
        snapshot: Effect.fn("WorkingTrees.snapshot")(function*(key, { author, message }) {
          const tree = yield* find(key)
          const content = MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root))
          if (content === null) return yield* new NoChanges({ repo: key.repo })
          const commit: MemoryCommit = {
            parents: [tree.baseSha],
            files: Object.fromEntries(content.files),
            executables: content.executables,
            // Dated by the making of the tree, so that a repeated run gives the same commit.
            note: JSON.stringify([message, author.name, author.email, Math.floor(tree.preparedAt / 1_000)])
          }
          const sha = shaOf(commit)
          tree.snapshots.set(sha, commit)
          return { sha, baseRef: tree.baseRef }
        }),
        push: Effect.fn("WorkingTrees.push")(function*(key, { headRef, remote, sha }) {
          const refuse = (detail: string) => new PushFailed({ repo: key.repo, detail, retryable: false })
          const tree = known(key)
          if (tree === undefined) return yield* refuse("The sandbox has no working tree here.")
          if (!isRefName(headRef)) return yield* refuse("The branch has no valid name.")
          const repository = repositories.at(remote.url)
          if (repository === undefined) return yield* refuse("The repository was not found.")
          const commit = tree.snapshots.get(sha)
          if (commit === undefined) return yield* refuse("The commit is none of this tree.")
          const current = repository.branches.get(headRef)
          if (current !== sha) {
            const ours = tree.pushed.get(headRef) ?? new Set()
            if (current !== undefined && !ours.has(current)) {
              return yield* refuse("The branch holds commits that are not from this sandbox.")
            }
            tree.pushed.set(headRef, ours.add(sha))
            repository.commits.set(sha, commit)
            repository.branches.set(headRef, sha)
          }
          tree.published = { sha, content: contentOf(commit) }
        }),
        has: (sandboxId) => Effect.sync(() => sandboxes.has(sandboxId)),
        remove: (sandboxId) =>
          Effect.sync(() => {
            sandboxes.delete(sandboxId)
            clear(workspace(sandboxId))
          }),
        sandboxes: Effect.sync(() => Array.from(sandboxes.keys())),
        makeRoom: Effect.void
      })
    })
  )
}

/** A tree of the memory layer. */
interface PreparedTree {
  readonly root: string
  readonly baseSha: string
  readonly baseRef: string | null
  readonly base: MemoryTree.Content
  readonly preparedAt: number
  readonly snapshots: Map<string, MemoryCommit>
  /** What we ever pushed, by branch. */
  readonly pushed: Map<string, Set<string>>
  /** What was pushed last. */
  published: { readonly sha: string; readonly content: MemoryTree.Content } | null
}

const utf8 = new TextEncoder()
const CHUNK_BYTES = 65_536

/** A branch goes before a tag of the same name. A sentence when there is nothing to start from. */
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
  if (branches.size + tags.size === 0) return "The repository is empty: it has no commit to start from."
  return ref === undefined ? `It has no default branch "${name}".` : `It has no branch or tag "${name}".`
}

const contentOf = (commit: MemoryCommit | undefined): MemoryTree.Content => ({
  files: new Map(Object.entries(commit?.files ?? {})),
  executables: commit?.executables ?? new Set()
})

const versionOf = (content: string | undefined, ref: string): FileVersion => {
  if (content === undefined) return null
  const bytes = utf8.encode(content)
  const binary = MemoryTree.isBinary(bytes)
  const hash = sha1(utf8.encode(`blob ${bytes.length}\0${content}`))
  return { content: binary ? null : content, hash, ref, size: bytes.length, binary }
}

/** The repository's name; with the owner in front where two repositories share it. No name of a repository has a `+`. */
const folderOf = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}
