/** Checkpoints of trees in memory: save, restore, learn. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { CannotSave, CheckpointDamaged, CloneFailed, MAXIMUM_SAVED_BYTES, type WorkingTrees } from "../../src/files/ports/WorkingTrees.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import type { ChangeCounts } from "../../src/source/schema/ChangeCounts.ts"
import { sameRepo } from "../../src/source/schema/Naming.ts"
import * as MemoryCheckpoint from "./MemoryCheckpoint.ts"
import { workspaceOf } from "./MemoryDisk.ts"
import { shaOf } from "./MemoryRepositories.ts"
import * as MemoryTree from "./MemoryTree.ts"
import { checkOut, contentOf, find, folderOf, type PreparedTree, type PreparedTrees } from "./PreparedTrees.ts"

const utf8 = new TextEncoder()

/** The saving part of `WorkingTrees`. */
export const saves = (trees: PreparedTrees): Pick<WorkingTrees["Service"], "learn" | "save"> => {
  const { disk } = trees
  return {
    save: Effect.fn("WorkingTrees.save")(function*(sandboxId, repos, { maximumBytes = MAXIMUM_SAVED_BYTES } = {}) {
      const changes: Array<ChangeCounts> = []
      const saved = yield* Effect.forEach(
        repos,
        ({ repo }) =>
          Effect.map(find(trees, { sandboxId, repo }), (tree): MemoryCheckpoint.Saved => {
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
          })
      )
      const bytes = yield* MemoryCheckpoint.encode(saved)
      if (bytes.length > maximumBytes) {
        return yield* new CannotSave({ repo: repos[0]?.repo ?? "", detail: "It is larger than it may be.", retryable: false })
      }
      return { repos: saved.map(({ repo, sha }) => ({ repo, sha })), changes, content: Stream.make(bytes) }
    }),
    learn: Effect.fn("WorkingTrees.learn")(function*<E, R>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E, R>) {
      const chunks = yield* Stream.runCollect(content)
      const saved = yield* MemoryCheckpoint.decode(Uint8Array.from(chunks.flatMap((chunk) => [...chunk])))
      const learned = yield* Effect.forEach(
        saved,
        (one) => Effect.map(find(trees, { sandboxId, repo: one.repo }), (known) => ({ ...one, known }))
      )
      if (learned.some(({ baseSha, known }) => baseSha !== known.baseSha)) {
        return yield* new CheckpointDamaged({ detail: "It goes on from another commit." })
      }
      for (const { known, sha, tree } of learned) known.saved.set(sha, contentOf(tree))
    })
  }
}

/** The restoring part of `WorkingTrees`. */
export const restores = (prepared: PreparedTrees): Pick<WorkingTrees["Service"], "restore"> => {
  const { disk, fetched, repositories, restoring, sandboxes } = prepared
  return {
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
          checkOut(disk, root, contentOf(tree))
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
      )
  }
}
