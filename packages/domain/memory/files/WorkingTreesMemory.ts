/** `WorkingTrees` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import {
  BranchMoved,
  CannotSave,
  CheckpointDamaged,
  CloneFailed,
  FileNotFound,
  FileProtected,
  FileTooLarge,
  type FileVersion,
  IsDirectory,
  MAXIMUM_SAVED_BYTES,
  MergeConflict,
  NoChanges,
  NotADirectory,
  PushFailed,
  type SnapshotOptions,
  type TreeKey,
  UnknownCommit,
  WorkingTrees
} from "../../src/files/ports/WorkingTrees.ts"
import { sha1 } from "../../src/ids/Digest.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { isProtected } from "../../src/source/rules/FileRules.ts"
import type { ChangeCounts } from "../../src/source/schema/ChangeCounts.ts"
import { isCommitId, isRefName, sameRepo } from "../../src/source/schema/Naming.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"
import * as MemoryCheckpoint from "./MemoryCheckpoint.ts"
import { MemoryDisk, workspaceOf } from "./MemoryDisk.ts"
import * as MemoryMerge from "./MemoryMerge.ts"
import * as MemoryPatch from "./MemoryPatch.ts"
import { type MemoryCommit, MemoryRepositories, type MemoryRepository, shaOf } from "./MemoryRepositories.ts"
import * as MemoryTree from "./MemoryTree.ts"

/**
 * Trees on `MemoryDisk` of repositories in `MemoryRepositories`; for tests and for embedding. Files are text, there are
 * no links, renames are found by equal content alone, and agents have no git of their own. Passes `trees` of the contract
 * suite; the rest needs a real disk.
 */
export const layer = Layer.effect(
  WorkingTrees,
  Effect.gen(function*() {
    const disk = yield* MemoryDisk
    const repositories = yield* MemoryRepositories
    const sandboxes = new Map<SandboxId, Map<string, PreparedTree>>()
    const restoring = new Set<SandboxId>()
    /** Commits that trees started from, by repository and id. */
    const fetched = new Map<string, MemoryTree.Content>()

    const clear = (folder: string) => {
      for (const path of disk.files.keys()) if (path.startsWith(`${folder}/`)) disk.files.delete(path)
    }
    const checkOut = (root: string, { executables, files }: MemoryTree.Content) => {
      clear(root)
      for (const [path, content] of files) disk.files.set(`${root}/${path}`, content)
      for (const path of executables) disk.executables.add(`${root}/${path}`)
    }
    const known = ({ repo, sandboxId }: TreeKey) => restoring.has(sandboxId) ? undefined : sandboxes.get(sandboxId)?.get(repo.toLowerCase())
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
      folder: folderOf,
      prepare: Effect.fn("WorkingTrees.prepare")(function*(key, { defaultBranch, ref, remote, repos }) {
        const preparedAt = yield* Clock.currentTimeMillis
        const existing = known(key)
        if (existing !== undefined) return { baseSha: existing.baseSha, baseRef: existing.baseRef }
        const repository = repositories.at(remote.url)
        const found = repository === undefined ? "The repository was not found." : resolve(repository, ref, defaultBranch)
        if (typeof found === "string") return yield* new CloneFailed({ repo: key.repo, detail: found, retryable: false })
        const tree: PreparedTree = {
          root: `${workspaceOf(key.sandboxId)}/${folderOf(key.repo, repos)}`,
          baseSha: found.sha,
          baseRef: found.branch,
          base: contentOf(repository?.commits.get(found.sha)),
          preparedAt,
          saved: new Map(),
          snapshots: new Map(),
          pushed: new Map(),
          published: null
        }
        fetched.set(`${remote.url} ${found.sha}`, tree.base)
        checkOut(tree.root, tree.base)
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
      readBase: Effect.fn("WorkingTrees.readBase")(function*(key, paths, { maximumBytes }) {
        const { base } = yield* find(key)
        return new Map(
          Array.from(paths).flatMap((path) => {
            const content = base.files.get(path)
            if (content === undefined) return []
            const bytes = utf8.encode(content)
            return [[path, { blob: blobId(bytes), content: bytes.length > maximumBytes ? null : bytes }]]
          })
        )
      }),
      findBase: Effect.fn("WorkingTrees.findBase")(function*(key, names, { maximum }) {
        const { base } = yield* find(key)
        const wanted = new Set(names)
        const found = Array.from(base.files).filter(([path]) => wanted.has(path.slice(path.lastIndexOf("/") + 1)))
        return found.length > maximum ? null : new Map(found.map(([path, content]) => [path, blobId(utf8.encode(content))]))
      }),
      findBaseRef: Effect.fn("WorkingTrees.findBaseRef")(function*(key, { refs, remote }) {
        const { baseSha } = yield* find(key)
        const repository = repositories.at(remote.url)
        if (repository === undefined) {
          return yield* new CloneFailed({ repo: key.repo, detail: "The repository was not found.", retryable: false })
        }
        return {
          baseSha,
          on: refs.find((ref) => tipsFor(repository, ref).some((tip) => repository.history(tip).includes(baseSha))) ?? null
        }
      }),
      diff: Effect.fn("WorkingTrees.diff")(function*(key, { from, isWhole, maximumBytes, path, to }) {
        const tree = yield* find(key)
        const contentAt = (version: string) => {
          if (version === "base" || version === tree.baseSha) return tree.base
          if (version === "working") return MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root), "saved") ?? tree.base
          return tree.saved.get(version)
        }
        const [before, after] = [contentAt(from), contentAt(to)]
        if (before === undefined || after === undefined) {
          return yield* new UnknownCommit({ commits: [...new Set([from, to])].filter((version) => contentAt(version) === undefined) })
        }
        const bytes = utf8.encode(MemoryPatch.patch(before, after, path, isWhole))
        return bytes.length > maximumBytes ? yield* new FileTooLarge({ maximumBytes }) : bytes
      }),
      branches: Effect.fn("WorkingTrees.branches")(function*(key, { author, branches, headRef, pushed, remote }) {
        const tree = yield* find(key)
        const repository = repositories.at(remote.url)
        if (repository === undefined) return yield* refuse(key.repo, "The repository was not found.")
        const tips = new Map(branches.flatMap((branch) => {
          const tip = repository.branches.get(branch)
          return tip === undefined ? [] : [[branch, tip] as const]
        }))
        const head = repository.branches.get(headRef)
        const tried = tree.pushed.get(headRef) ?? new Set()
        if (head === undefined) {
          const isGone = pushed !== null || tree.published !== null && tried.has(tree.published.sha)
          return { head: null, isGone, root: null, tips }
        }
        const isSnapshot = (sha: string) => isSnapshotOf(repository.commits.get(sha), author, tree.preparedAt)
        const isOurs = tried.has(head) || isSnapshot(head)
        if (head !== pushed && !(isOurs && (pushed === null || repository.history(head).includes(pushed)))) {
          return yield* new BranchMoved({ repo: key.repo, branch: headRef })
        }
        const root = repository.history(head).find((sha) => !tried.has(sha) && !isSnapshot(sha)) ?? null
        return { head, isGone: false, root, tips }
      }),
      snapshot: Effect.fn("WorkingTrees.snapshot")(function*(key, { author, message, since }) {
        const tree = yield* find(key)
        const commits = since === undefined ? undefined : repositories.at(since.remote.url)?.commits
        const at = Effect.fnUntraced(function*(sha: string | null) {
          if (sha === null || sha === tree.baseSha) return tree.base
          const commit = tree.snapshots.get(sha) ?? commits?.get(sha)
          return commit === undefined ? yield* refuse(key.repo, "The commit does not exist in the repository.") : contentOf(commit)
        })
        let content = MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root)) ?? tree.base
        for (const { ancestor, onto } of since?.merges ?? []) {
          const merged = MemoryMerge.merge(content, yield* at(onto), yield* at(ancestor))
          if (merged.conflicts.length > 0) return yield* new MergeConflict({ repo: key.repo, files: merged.conflicts })
          content = merged.content
        }
        const head = since?.head ?? null
        const parent = head ?? since?.merges.at(-1)?.onto ?? tree.baseSha
        if (MemoryMerge.isSame(content, yield* at(parent))) {
          return head === null ? yield* new NoChanges({ repo: key.repo }) : { sha: head, baseRef: tree.baseRef }
        }
        const commit: MemoryCommit = {
          parents: [parent],
          files: Object.fromEntries(content.files),
          executables: content.executables,
          // Dated by the making of the tree, so that a repeated run gives the same commit.
          note: JSON.stringify([message, author.name, author.email, Math.floor(tree.preparedAt / 1_000)])
        }
        const sha = shaOf(commit)
        tree.snapshots.set(sha, commit)
        return { sha, baseRef: tree.baseRef }
      }),
      push: Effect.fn("WorkingTrees.push")(function*(key, { expected = null, headRef, remote, sha }) {
        const tree = known(key)
        if (tree === undefined) return yield* refuse(key.repo, "The sandbox has no working tree here.")
        if (!isRefName(headRef)) return yield* refuse(key.repo, "The branch has no valid name.")
        const repository = repositories.at(remote.url)
        if (repository === undefined) return yield* refuse(key.repo, "The repository was not found.")
        const commit = tree.snapshots.get(sha) ?? repository.commits.get(sha)
        if (commit === undefined) return yield* refuse(key.repo, "The commit is none of this tree.")
        const current = repository.branches.get(headRef)
        if (current !== sha) {
          if (current !== (expected ?? undefined)) return yield* new BranchMoved({ repo: key.repo, branch: headRef })
          if (expected !== null && !commit.parents.includes(expected)) {
            return yield* refuse(key.repo, "It does not go on from what was published.")
          }
          tree.pushed.set(headRef, (tree.pushed.get(headRef) ?? new Set()).add(sha))
          repository.commits.set(sha, commit)
          repository.branches.set(headRef, sha)
        }
        tree.published = { sha, content: contentOf(commit) }
      }),
      save: Effect.fn("WorkingTrees.save")(function*(sandboxId, repos, { maximumBytes = MAXIMUM_SAVED_BYTES } = {}) {
        const changes: Array<ChangeCounts> = []
        const saved = yield* Effect.forEach(repos, ({ repo }) =>
          Effect.map(find({ sandboxId, repo }), (tree): MemoryCheckpoint.Saved => {
            const content = MemoryTree.committed(tree.base, MemoryTree.read(disk, tree.root), "saved")
            const files = Object.fromEntries((content ?? tree.base).files)
            const executables = (content ?? tree.base).executables
            const sha = content === null ? tree.baseSha : shaOf({ parents: [tree.baseSha], files, executables, note: "saved" })
            const { baseRef, baseSha, preparedAt, published } = tree
            if (content !== null) tree.saved.set(sha, content)
            changes.push({ repo, ...MemoryTree.counts(tree.base, content ?? tree.base) })
            return {
              repo,
              baseSha,
              baseRef,
              preparedAt,
              sha,
              tree: { files, executables: [...executables] },
              published: published === null ? null : {
                sha: published.sha,
                commit: { files: Object.fromEntries(published.content.files), executables: [...published.content.executables] }
              },
              pushed: Array.from(tree.pushed, ([branch, commits]) => ({ branch, commits: [...commits] }))
            }
          }))
        const bytes = yield* MemoryCheckpoint.encode(saved)
        if (bytes.length > maximumBytes) {
          return yield* new CannotSave({ repo: repos[0]?.repo ?? "", detail: "It is larger than it may be.", retryable: false })
        }
        return { repos: saved.map(({ repo, sha }) => ({ repo, sha })), changes, content: Stream.make(bytes) }
      }),
      restore: (sandboxId, content, sources, { forget } = {}) =>
        Effect.gen(function*() {
          const chunks = yield* Stream.runCollect(content)
          const saved = yield* MemoryCheckpoint.decode(Uint8Array.from(chunks.flatMap((chunk) => [...chunk])))
          const others = new CheckpointDamaged({ detail: "It is of other repositories." })
          if (saved.length !== sources.length) return yield* others
          const trees = yield* Effect.forEach(
            sources,
            Effect.fnUntraced(function*({ remote, repo }) {
              const tree = saved.find((candidate) => sameRepo(candidate.repo, repo))
              if (tree === undefined) return yield* others
              const commit = repositories.at(remote.url)?.commits.get(tree.baseSha)
              const base = fetched.get(`${remote.url} ${tree.baseSha}`) ?? (commit === undefined ? undefined : contentOf(commit))
              if (base === undefined) {
                return yield* new CloneFailed({ repo, detail: "The commit does not exist in the repository.", retryable: false })
              }
              return { ...tree, repo, base }
            })
          )
          for (const { base, baseRef, baseSha, preparedAt, published, pushed, repo, sha, tree } of trees) {
            const root = `${workspaceOf(sandboxId)}/${folderOf(repo, sources.map((source) => source.repo))}`
            checkOut(root, contentOf(tree))
            const before = forget === "publication" ? undefined : sandboxes.get(sandboxId)?.get(repo.toLowerCase())
            const kept = forget === "publication" ? { published: null, pushed: [] } : { published, pushed }
            const tried = new Map(kept.pushed.map(({ branch, commits }) => [branch, new Set(commits)]))
            for (const [branch, commits] of before?.pushed ?? []) {
              tried.set(branch, new Set([...tried.get(branch) ?? [], ...commits]))
            }
            const restored: PreparedTree = {
              root,
              baseSha,
              baseRef,
              base,
              preparedAt,
              saved: new Map([[sha, contentOf(tree)]]),
              snapshots: new Map(),
              pushed: tried,
              published: kept.published === null ? null : { sha: kept.published.sha, content: contentOf(kept.published.commit) }
            }
            const known = sandboxes.get(sandboxId) ?? new Map<string, PreparedTree>()
            sandboxes.set(sandboxId, known.set(repo.toLowerCase(), restored))
          }
          return trees.map(({ baseRef, baseSha, repo, sha, tree }) => {
            const bytes = Array.from(contentOf(tree).files.values()).reduce((sum, text) => sum + utf8.encode(text).length, 0)
            return { repo, sha, bytes, baseSha, baseRef }
          })
        }).pipe(
          (self) =>
            Effect.acquireUseRelease(
              Effect.sync(() => restoring.add(sandboxId)),
              () => self,
              () => Effect.sync(() => restoring.delete(sandboxId))
            ),
          Effect.withSpan("WorkingTrees.restore")
        ),
      learn: Effect.fn("WorkingTrees.learn")(function*<E, R>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E, R>) {
        const chunks = yield* Stream.runCollect(content)
        const saved = yield* MemoryCheckpoint.decode(Uint8Array.from(chunks.flatMap((chunk) => [...chunk])))
        const learned = yield* Effect.forEach(
          saved,
          (one) => Effect.map(find({ sandboxId, repo: one.repo }), (known) => ({ ...one, known }))
        )
        if (learned.some(({ baseSha, known }) => baseSha !== known.baseSha)) {
          return yield* new CheckpointDamaged({ detail: "It goes on from another commit." })
        }
        for (const { known, sha, tree } of learned) known.saved.set(sha, contentOf(tree))
      }),
      has: (sandboxId, repos = []) =>
        Effect.sync(() =>
          sandboxes.has(sandboxId) && !restoring.has(sandboxId) && repos.every((repo) => known({ sandboxId, repo }) !== undefined)
        ),
      isWhole: () => Effect.succeed(true),
      remove: (sandboxId) =>
        Effect.sync(() => {
          sandboxes.delete(sandboxId)
          clear(workspaceOf(sandboxId))
        }),
      sandboxes: Effect.sync(() => Array.from(sandboxes.keys())),
      makeRoom: Effect.void
    })
  })
)

/** A tree of the memory layer. */
interface PreparedTree {
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

const utf8 = new TextEncoder()

const CHUNK_BYTES = 65_536

const refuse = (repo: RepoName, detail: string) => new PushFailed({ repo, detail, retryable: false })

/** Whether a snapshot of a tree that was made then could be the commit. */
const isSnapshotOf = (commit: MemoryCommit | undefined, author: SnapshotOptions["author"], preparedAt: number): boolean =>
  commit?.note?.endsWith(JSON.stringify([author.name, author.email, Math.floor(preparedAt / 1_000)]).slice(1)) === true

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

/** The tips that a name stands for, or a pattern such as `release/*`. */
const tipsFor = ({ branches, tags }: MemoryRepository, ref: string): ReadonlyArray<string> => {
  if (!ref.endsWith("/*")) return [branches.get(ref) ?? tags.get(ref) ?? []].flat()
  return [...branches, ...tags].flatMap(([name, sha]) => name.startsWith(ref.slice(0, -1)) ? [sha] : [])
}

const contentOf = (commit: Pick<MemoryCommit, "files"> & { readonly executables?: Iterable<string> } | undefined): MemoryTree.Content => ({
  files: new Map(Object.entries(commit?.files ?? {})),
  executables: new Set(commit?.executables)
})

const versionOf = (content: string | undefined, ref: string): FileVersion => {
  if (content === undefined) return null
  const bytes = utf8.encode(content)
  const binary = MemoryTree.isBinary(bytes)
  return { content: binary ? null : content, hash: blobId(bytes), ref, size: bytes.length, binary }
}

const blobId = (bytes: Uint8Array): string => sha1(Uint8Array.from([...utf8.encode(`blob ${bytes.length}\0`), ...bytes]))

/** The repository's name; with the owner in front where two repositories share it. No name of a repository has a `+`. */
const folderOf = (repo: RepoName, repos: ReadonlyArray<RepoName>): string => {
  const [owner = "", name = ""] = repo.split("/")
  const isShared = repos.some((other) => !sameRepo(other, repo) && other.split("/")[1]?.toLowerCase() === name.toLowerCase())
  return isShared ? `${owner}+${name}` : name
}
