/**
 * Saves a tree as it is: the box says what it holds, as for a snapshot, and what it has beyond the commit it started from
 * becomes a pack. It is never published, so it holds files of the environment too.
 */
import { CannotSave, type SaveOptions } from "@slipway/domain/files/ports/WorkingTrees"
import { isGitPath } from "@slipway/domain/source/rules/FileRules"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Effect, Option } from "effect"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { fields, type GitFailed, line } from "../Git.ts"
import { explained } from "../GitFailure.ts"
import { inPieces } from "../InPieces.ts"
import * as AgentCommits from "../publish/AgentCommits.ts"
import * as AgentHead from "../publish/AgentHead.ts"
import * as CommitObject from "../publish/CommitObject.ts"
import { idsIn, type Known, known, note, savedFile } from "../publish/KnownObjects.ts"
import * as Push from "../publish/Push.ts"
import { strange, without } from "../publish/Snapshot.ts"
import { replaceFile } from "../RepositoryLayout.ts"
import type { BoxGit } from "../tree/BoxGit.ts"
import { isNestedRepository } from "../tree/Changes.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"
import * as ReceivedPack from "../tree/ReceivedPack.ts"
import * as Packs from "./Packs.ts"
import * as Shortstat from "./Shortstat.ts"
import type * as TreesArchive from "./TreesArchive.ts"

/**
 * The tree as it is now, its objects in the repository or beside it, for `ask`. It is looked at when `before` is through, which
 * says what is known.
 */
export const currentTree = Effect.fnUntraced(function*<A extends Known, E, R>(
  repository: HostRepository,
  box: BoxGit,
  before: Effect.Effect<A, E, R>,
  maximumBytes: number
) {
  const committedIn = (own: string) =>
    Effect.map(
      run(repository, ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", repository.baseSha, own]),
      fields
    )
  let committed: ReadonlyArray<Buffer> = []
  const received = yield* ReceivedPack.receive(repository, maximumBytes)
  const found = yield* box.snapshot(repository, {
    before: Effect.tap(before, ({ own }) =>
      own === undefined ? Effect.void : Effect.map(committedIn(own), (names) => {
        committed = names
      })),
    known: idsIn,
    choose: Effect.fnUntraced(function*(names) {
      const chosen: Array<Buffer> = []
      yield* inPieces(names, (path) => {
        if (!isNestedRepository(path) && !isGitPath(path.toString())) chosen.push(path)
      })
      // Committed files of the agent are part of the tree, even if they are ignored.
      return [...chosen, ...committed]
    }),
    maximumBytes,
    take: received.append
  })
  const tree = yield* received.id
  if (tree === undefined) return yield* ReceivedPack.unsound("The box says nothing.")
  const isKnown = [found.baseTree, ...idsIn(found)].includes(tree)
  if (!isKnown) yield* received.index
  /** Names in it that must not be saved. Fails where it is unsound. */
  const left = isKnown ? Effect.succeed([]) : strange(repository, tree, maximumBytes, received.beside, { isKept: false, purpose: "saved" })
  return { tree, left, isKnown, received, before: found }
})

const AUTHOR = { name: "Slipway", email: "slipway@sandbox.invalid" }

/** Commits a tree on the agent's own commits; the very same commit for the same tree. It need not be in the repository yet. */
const commit = Effect.fnUntraced(function*(repository: HostRepository, { baseTree, own, ownTree }: Known, tree: string) {
  if (own === undefined && tree === baseTree) return repository.baseSha
  if (own !== undefined && tree === ownTree) return own
  return yield* Effect.promise(() =>
    CommitObject.write(repository.gitDir, {
      tree,
      parent: own ?? repository.baseSha,
      author: AUTHOR,
      at: Math.floor(repository.preparedAt / 1_000),
      message: "The tree as it was\n"
    })
  )
})

/** All that these commits have beyond the one the tree started from, in a file that is gone with the scope. `beside`: more objects. */
const packOf = Effect.fnUntraced(function*(
  repository: HostRepository,
  commits: ReadonlyArray<string>,
  beside: string,
  maximumBytes: number
) {
  const path = yield* scratch(repository)
  const file = yield* Effect.acquireRelease(
    Effect.promise(() => open(path, "wx+", 0o600)),
    (file) => Effect.promise(() => file.close())
  )
  yield* run(repository, ["pack-objects", "--revs", "--thin", "--stdout", "--quiet", "--delta-base-offset", "--threads=1"], {
    input: `${commits.join("\n")}\n^${repository.baseSha}\n`,
    outputFile: file.fd,
    maximumBytes,
    isLimited: true,
    env: { GIT_ALTERNATE_OBJECT_DIRECTORIES: beside },
    config: ["core.compression=1", "core.bigFileThreshold=16m", "pack.windowMemory=64m"]
  })
  return { fd: file.fd, size: (yield* Effect.promise(() => file.stat())).size }
})

/** New content of a tree that takes seconds to pack. */
const LARGE_BYTES = 16 * 2 ** 20

/** Numbers in lists must not take longer than this, nor may a tree that was made to be slow. */
const COUNTING = "5 seconds"

/** By both commits. */
const counted = new LruCache<string, Shortstat.Counts>(1_000)

/** How much the commit differs from the one the tree started from; `null`: git cannot count it in time. */
const countChanges = Effect.fnUntraced(function*(repository: HostRepository, sha: string): Effect.fn.Return<ChangeCounts | null> {
  const { baseSha, repo } = repository
  const known = counted.get(`${baseSha} ${sha}`)
  if (known !== undefined) return { repo, ...known }
  const args = ["-r", "--shortstat", "--find-renames=100%", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", baseSha, sha]
  const said = yield* Effect.option(
    run(repository, ["diff-tree", ...args], { timeout: COUNTING, isLimited: true, config: ["core.bigFileThreshold=1m"] })
  )
  if (Option.isNone(said)) return null
  const counts = Shortstat.parse(line(said.value))
  counted.set(`${baseSha} ${sha}`, counts)
  return { repo, ...counts }
})

/** A tree with a pack of what it has, open until the scope closes. */
export const save = Effect.fn("Saving.save")(
  function*(repository: HostRepository, box: BoxGit, { history }: SaveOptions, maximumBytes: number, maximumTreeBytes: number) {
    const { baseRef, baseSha, preparedAt, repo } = repository
    // First: what the agent commits meanwhile is in the tree.
    const committed = Effect.gen(function*() {
      const { branch, commit: at } = yield* AgentHead.read(repository)
      const taken = history === undefined || at === baseSha
        ? undefined
        : at !== null && (yield* AgentCommits.isTaken(repository, at))
        ? at
        : yield* AgentCommits.take(repository, box, history(baseSha), maximumBytes, "saved")
      const memory = yield* Push.remembered(repository)
      return { branch, pushed: memory.pushed, ...yield* known(repository, taken, memory.published) }
    })
    const now = yield* currentTree(repository, box, committed, maximumTreeBytes)
    const { branch, lastTree, own, published, pushed } = now.before
    const packed = Effect.fnUntraced(function*(treeId: string) {
      const sha = yield* commit(repository, now.before, treeId)
      const commits = [sha, own, published].flatMap((id) => id === undefined || id === null || id === baseSha ? [] : [id])
      const pack = commits.length === 0 ? null : yield* packOf(repository, commits, now.received.objects, maximumBytes)
      return { sha, pack }
    })
    // Nearly always nothing is left out. Why a tree is unsound goes before whatever else it leads to.
    const [left, early] = now.received.bytes() < LARGE_BYTES
      ? yield* Effect.all([now.left, Effect.exit(packed(now.tree))], { concurrency: 2 })
      : [yield* now.left, null]
    // Before the pack of a large tree is made: where that takes too long, the next attempt reads only what has changed since.
    if (!now.isKnown) yield* now.received.keep(now.tree)
    const treeId = left.length > 0 ? yield* without(repository, now.tree, left) : now.tree
    if (treeId !== lastTree) {
      yield* Effect.promise(() => replaceFile(savedFile(repository), treeId, join(repository.gitDir, "scratch")))
      yield* note(repository, treeId, "tree")
    }
    const { pack, sha } = early !== null && treeId === now.tree ? yield* early : yield* packed(treeId)
    const tree: TreesArchive.SavedTree = {
      repo,
      baseSha,
      baseRef,
      preparedAt,
      sha,
      head: own ?? null,
      branch,
      published,
      pushed
    }
    yield* Packs.consolidate(repository)
    return { tree, pack, changes: yield* countChanges(repository, sha) }
  },
  (self, { repo }) =>
    self.pipe(
      Effect.catchTag("Unsound", ({ reason }) => new CannotSave({ repo, detail: reason, retryable: false })),
      Effect.catchTag("GitFailed", explained("save a working tree", repo, (failure) => new CannotSave({ repo, ...explain(failure) })))
    )
)

const explain = ({ command, reason }: GitFailed) =>
  reason === "timeout"
    ? { detail: "Saving it took too long.", retryable: true }
    : reason === "lost"
    ? { detail: "Its box went away meanwhile.", retryable: true }
    : reason === "output" && command === "pack-objects"
    ? { detail: "It is larger than it may be.", retryable: false }
    : reason === "output"
    ? { detail: "There are too many changes to save.", retryable: false }
    : { detail: "Git could not save it.", retryable: false }
