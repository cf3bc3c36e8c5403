/** Publishing of trees in memory: branches, commits, pushes. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import {
  BranchMoved,
  MergeConflict,
  NoChanges,
  PushFailed,
  type SnapshotOptions,
  type WorkingTrees
} from "../../src/files/ports/WorkingTrees.ts"
import { isRefName } from "../../src/source/schema/Naming.ts"
import type { RepoName } from "../../src/source/schema/RepoRef.ts"
import * as MemoryMerge from "./MemoryMerge.ts"
import { type MemoryCommit, shaOf, writeNote } from "./MemoryRepositories.ts"
import * as MemoryTree from "./MemoryTree.ts"
import { contentOf, find, known, type PreparedTrees } from "./PreparedTrees.ts"

const refuse = (repo: RepoName, detail: string) => new PushFailed({ repo, detail, retryable: false })

/** Whether the commit can be a snapshot of a tree that was made at that time. */
const isSnapshotOf = (commit: MemoryCommit | undefined, author: SnapshotOptions["author"], preparedAt: number): boolean =>
  commit?.note?.endsWith(JSON.stringify([author.name, author.email, Math.floor(preparedAt / 1_000)]).slice(1)) === true

/** The publishing part of `WorkingTrees`. */
export const publishes = (trees: PreparedTrees): Pick<WorkingTrees["Service"], "branches" | "newest" | "push" | "snapshot"> => {
  const { disk, repositories } = trees
  return {
    branches: Effect.fn("WorkingTrees.branches")(function*(key, { author, branches, headRef, pushed, remote }) {
      const tree = yield* find(trees, key)
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
    newest: Effect.fn("WorkingTrees.newest")(function*(key, { branches, remote }) {
      yield* find(trees, key)
      const repository = repositories.at(remote.url)
      if (repository === undefined) return yield* refuse(key.repo, "The repository was not found.")
      const tips = new Map(branches.flatMap((branch) => {
        const tip = repository.branches.get(branch)
        return tip === undefined ? [] : [[branch, tip] as const]
      }))
      // Agents have no git of their own here.
      return { tips, shallow: [], pack: Stream.empty }
    }),
    snapshot: Effect.fn("WorkingTrees.snapshot")(function*(key, { author, message, since, trailer }) {
      const tree = yield* find(trees, key)
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
        // The date is that of the tree, so that a repeated run gives the same commit.
        note: writeNote({
          message: trailer === undefined ? message : `${message.trimEnd()}\n\n${trailer}\n`,
          author,
          seconds: Math.floor(tree.preparedAt / 1_000)
        })
      }
      const sha = shaOf(commit)
      tree.snapshots.set(sha, commit)
      return { sha, baseRef: tree.baseRef }
    }),
    push: Effect.fn("WorkingTrees.push")(function*(key, { expected = null, headRef, remote, sha }) {
      const tree = known(trees, key)
      if (tree === undefined) return yield* refuse(key.repo, "The sandbox has no working tree here.")
      if (!isRefName(headRef)) return yield* refuse(key.repo, "The branch has no valid name.")
      const repository = repositories.at(remote.url)
      if (repository === undefined) return yield* refuse(key.repo, "The repository was not found.")
      const commit = tree.snapshots.get(sha) ?? repository.commits.get(sha)
      if (commit === undefined) return yield* refuse(key.repo, "The commit does not belong to this tree.")
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
    })
  }
}
