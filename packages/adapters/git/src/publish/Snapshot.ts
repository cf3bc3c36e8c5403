/**
 * Commits a tree as it is. The box says what it holds, as objects; what may be in a commit is decided here, by those objects
 * alone: its parent, which names it may have, that no environment file and no other repository is new in it, and its size.
 */
import { NoChanges, PushFailed, type SnapshotOptions } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { isEnvironmentFile, isGitPath } from "@slipway/domain/source/rules/FileRules"
import { LruCache } from "@slipway/domain/store/LruCache"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect, Fiber } from "effect"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { eachField, type GitFailed, type GitOptions, line, terminated } from "../Git.ts"
import { explained } from "../GitFailure.ts"
import { inPieces } from "../InPieces.ts"
import * as LfsFiles from "../lfs/LfsFiles.ts"
import type { Destinations } from "../lfs/LfsHttp.ts"
import * as UploadContents from "../lfs/UploadContents.ts"
import { replaceFile } from "../RepositoryLayout.ts"
import * as MovedGitlinks from "../submodules/MovedGitlinks.ts"
import { MAXIMUM_BYTES as MAXIMUM_NAMES } from "../tree/BoxAnswers.ts"
import type { BoxGit } from "../tree/BoxGit.ts"
import { PATIENCE } from "../tree/BoxScript.ts"
import { isNestedRepository } from "../tree/Changes.ts"
import { type HostRepository, identity, run, scratch } from "../tree/HostRepository.ts"
import * as ReceivedPack from "../tree/ReceivedPack.ts"
import * as Submodules from "../tree/Submodules.ts"
import * as AgentCommits from "./AgentCommits.ts"
import * as AgentHead from "./AgentHead.ts"
import * as CommitObject from "./CommitObject.ts"
import * as FetchedCommits from "./FetchedCommits.ts"
import { idsIn, known, note } from "./KnownObjects.ts"
import * as Push from "./Push.ts"
import type { SigningKey } from "./SigningKey.ts"
import * as TreeMerge from "./TreeMerge.ts"

/** Bytes of all changed files together: more is an accident, and would fill the disk of the host. */
export const MAX_SNAPSHOT_BYTES = 1_073_741_824

/** Files that one commit may change. */
const MAXIMUM_FILES = 100_000
/** The most bytes of git's list of changes, about 200 for each. */
const MAXIMUM_DIFF_BYTES = 33_554_432

const REPOSITORY = "160000"
const ABSENT = "000000"
const NO_OBJECT = /^0+$/u

/** New files that hold secrets or another repository stay out, though the former may be ignored nowhere. */
const choose = Effect.fnUntraced(function*(names: ReadonlyArray<Buffer>) {
  const chosen: Array<Buffer> = []
  yield* inPieces(names, (path) => {
    if (!isNestedRepository(path) && !isEnvironmentFile(path.toString()) && !isGitPath(path.toString())) chosen.push(path)
  })
  return chosen
})

/** Changes of a tree since the commit that it started from, by the purpose of the new commit: */
interface Looked {
  /** All of its changed files together. */
  readonly bytes: Readonly<Record<AgentCommits.Purpose, number>>
  /** Names in it that must not be in the commit. */
  readonly left: Readonly<Record<AgentCommits.Purpose, ReadonlyArray<Buffer>>>
  /** Submodules at another commit. */
  readonly moved: ReadonlyArray<MovedGitlinks.Moved>
}

type Ask = (repository: Pick<HostRepository, "gitDir">, args: Parameters<typeof run>[1], options?: GitOptions) => ReturnType<typeof run>

const look = Effect.fnUntraced(function*(repository: Pick<HostRepository, "baseSha" | "gitDir">, tree: string, ask: Ask) {
  const blobs = Promise.withResolvers<string>()
  const sizes = yield* Effect.forkScoped(
    ask(repository, ["cat-file", "--batch-check=%(objectsize)"], { input: blobs.promise })
  )
  // :<old mode> <new mode> <old id> <new id> <status>, then the name
  const parts = eachField(
    yield* ask(repository, ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none",
      `${repository.baseSha}^{tree}`, tree], {
      maximumBytes: MAXIMUM_DIFF_BYTES
    })
  )
  const [repositories, secrets]: [Array<Buffer>, Array<Buffer>] = [[], []]
  const moved: Array<MovedGitlinks.Moved> = []
  const ids: Array<{ readonly id: string; readonly isSecret: boolean }> = []
  let unsound: string | undefined
  let count = 0
  yield* inPieces(parts, (head) => {
    const [oldMode = "", newMode = "", oldId = "", id = ""] = head.toString("latin1").slice(1).split(" ")
    const path = parts.next().value ?? Buffer.alloc(0)
    const isNew = oldMode === ABSENT
    const isSecret = isNew && isEnvironmentFile(path.toString())
    if (++count > MAXIMUM_FILES) unsound = `More than ${MAXIMUM_FILES} files are changed.`
    else if (isNew && isGitPath(path.toString())) unsound = "A file has a name that git does not allow."
    else if (newMode === REPOSITORY && oldMode !== REPOSITORY) repositories.push(path)
    else {
      if (isSecret) secrets.push(path)
      if (newMode === REPOSITORY) moved.push({ path, from: oldId, to: id })
      else if (!NO_OBJECT.test(id)) ids.push({ id, isSecret })
    }
    return unsound === undefined
  })
  if (unsound !== undefined) return yield* ReceivedPack.unsound(unsound)
  blobs.resolve(ids.map(({ id }) => `${id}\n`).join(""))
  const told = (yield* Fiber.join(sizes)).toString("latin1").split("\n")
  const bytes = { saved: 0, published: 0 }
  for (const [i, { isSecret }] of ids.entries()) {
    const size = Number(told[i]) || 0
    bytes.saved += size
    if (!isSecret) bytes.published += size
  }
  const looked: Looked = { bytes, left: { saved: repositories, published: [...repositories, ...secrets] }, moved }
  return looked
}, Effect.scoped)

/** By repository and tree: a checkpoint has looked at nearly every tree before it is published. */
const remembered = new LruCache<string, Looked>(1_000)
/** Names that are worth remembering. */
const FEW = 100

/** As {@link strange}, with the submodules that are at another commit. */
const inspect = Effect.fnUntraced(function*(
  repository: Pick<HostRepository, "baseSha" | "gitDir">,
  tree: string,
  maximumBytes: number,
  ask: Ask,
  { isKept, purpose }: { readonly isKept: boolean; readonly purpose: AgentCommits.Purpose }
) {
  const name = `${yield* identity(repository)} ${tree}`
  const { bytes, left, moved } = (isKept ? remembered.get(name) : undefined) ?? (yield* look(repository, tree, ask))
  if (left.published.length + moved.length <= FEW) remembered.set(name, { bytes, left, moved })
  if (bytes[purpose] > maximumBytes) {
    return yield* ReceivedPack.unsound(`The changed files have more than ${maximumBytes} bytes together.`)
  }
  return { left: left[purpose], moved }
})

/**
 * Names in `tree` that must not be in a commit for this. Fails when it holds what git would not have made, or too much. `isKept`: it
 * lies in the repository with all it needs, so what was seen of it before is so still.
 */
export const strange = (...asked: Parameters<typeof inspect>) => Effect.map(inspect(...asked), ({ left }) => left)

/** The same commit for the same tree, options and parent. `subjects`: of the agent's commits that it stands for. */
const commitOf = Effect.fnUntraced(function*(
  repository: HostRepository,
  { author, message, trailer }: SnapshotOptions,
  tree: string,
  parent: string,
  signing: SigningKey | null,
  subjects: ReadonlyArray<string> = []
) {
  const told = subjects.length === 0 ? message : `${message.trimEnd()}\n\n${subjects.map((subject) => `- ${subject}\n`).join("")}`
  const whole = trailer === undefined ? told : `${told.trimEnd()}\n\n${trailer}\n`
  const commit = {
    tree,
    parent,
    author,
    at: Math.floor(repository.preparedAt / 1_000),
    message: whole,
    ...signing === null ? {} : { sign: signing.sign }
  }
  const sha = yield* Effect.promise(() => CommitObject.write(repository.gitDir, commit))
  yield* note(repository, sha, "commit")
  return sha
})

const toldFile = ({ gitDir }: HostRepository, sha: string): string => join(gitDir, "told", sha)

/** Takes note of how far the agent was when the commit was made, so that the next one names only what came since. */
const tell = (repository: HostRepository, sha: string, own: string | undefined): Effect.Effect<void> =>
  own === undefined ? Effect.void : Effect.promise(async () => {
    await mkdir(join(repository.gitDir, "told"), { recursive: true })
    await replaceFile(toldFile(repository, sha), own, join(repository.gitDir, "scratch"))
  })

const toldIn = (repository: HostRepository, sha: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Effect.promise(() => textIn(toldFile(repository, sha), null)), (own) => own === null ? [] : [own])

/** The rest that a snapshot needs, beside the tree. */
export interface Means {
  /** Bytes of all changed files. */
  readonly maximumBytes: number
  readonly fetch: FetchedCommits.Fetch
  /** Signs all commits that are published; they are ours then. `null`: they are not signed. */
  readonly signing: SigningKey | null
  /** Where contents of Git LFS may go to. */
  readonly destinations: Destinations
}

/** The tree with pointers in place of files that are Git LFS's, whose contents its server has. Refused files are as they were. */
const withPointers = Effect.fnUntraced(
  function*(repository: HostRepository, tree: string, agents: AgentCommits.Taken, remote: Remote | undefined, means: Means) {
    const plain = (yield* LfsFiles.isUsed(repository, tree)) ? yield* LfsFiles.plainIn(repository, tree) : []
    const range = agents.sha === undefined || !agents.usesLfs ? null : [agents.sha, `^${repository.baseSha}`, "--"]
    if (plain.length === 0 && range === null) return null
    const { pointers, ...rest } = yield* UploadContents.publish(repository, plain, range, remote, means)
    const filled = pointers.size === 0 ? tree : yield* LfsFiles.withPointers(repository, tree, plain, pointers)
    return { ...rest, tree: rest.refused.length === 0 ? filled : yield* LfsFiles.reset(repository, filled, rest.refused) }
  }
)

/** A pure function of the tree and the options: dated by the making of the tree, so that a repeated run gives the same commit. */
export const snapshot = Effect.fn("Snapshot.snapshot")(
  function*(repository: HostRepository, box: BoxGit, options: SnapshotOptions, means: Means) {
    const { baseRef, baseSha, repo } = repository
    const { fetch, maximumBytes, signing } = means
    const { head = null, merges = [] } = options.since ?? {}
    if (options.since !== undefined) {
      const needed = [head, ...merges.flatMap(({ ancestor, onto }) => [ancestor, onto])].filter((sha) => sha !== null)
      yield* FetchedCommits.bring(repository, fetch, options.since.remote, needed)
    }
    const sources = { fetch, find: options.submodule, remote: options.since?.remote }
    // First: what the agent commits meanwhile is in the tree.
    const agents: AgentCommits.Taken = options.history === undefined || (yield* AgentHead.read(repository)).commit === baseSha
      ? { sha: undefined, subjects: [], usesLfs: false }
      : yield* AgentCommits.takeTold(
        repository,
        box,
        options.history(baseSha),
        maximumBytes,
        head === null ? [] : [head, ...yield* toldIn(repository, head)],
        sources
      )

    const received = yield* ReceivedPack.receive(repository, maximumBytes)
    let held: ReadonlyArray<Buffer> = []
    const before = yield* box.snapshot(repository, {
      hold: (folders) => {
        held = folders
      },
      before: known(repository, agents.sha),
      known: idsIn,
      choose,
      maximumBytes,
      take: received.append
    })
    const found = yield* received.id
    if (found === undefined) return yield* ReceivedPack.unsound("The box says nothing.")
    let tree: string = found
    const { baseTree, ownTree } = before
    if (tree !== baseTree && tree !== ownTree) {
      // A checkpoint has nearly always taken it before.
      const isKnown = idsIn(before).includes(tree)
      if (!isKnown) yield* received.index
      const { left, moved } = yield* inspect(repository, tree, maximumBytes, received.beside, { isKept: isKnown, purpose: "published" })
      if (!isKnown) yield* received.keep(tree)
      const lost = yield* MovedGitlinks.lost(repository, tree, moved, sources)
      if (left.length > 0) tree = yield* without(repository, tree, left)
      if (lost.length > 0) tree = yield* MovedGitlinks.reset(repository, tree, lost)
      held = [...held, ...lost.flatMap(({ path }) => held.some((folder) => folder.equals(path)) ? [] : [path])]
    }
    const isOwnTree = tree === baseTree || tree === ownTree
    const large = isOwnTree && !agents.usesLfs ? null : yield* withPointers(repository, tree, agents, options.since?.remote, means)
    tree = large?.tree ?? tree
    const own = large?.keepsCommits === false ? undefined : agents.sha
    const submodules = Submodules.told(held)
    for (const step of merges) tree = yield* TreeMerge.merge(repository, tree, step)
    const { subjects } = agents
    const about = {
      baseRef,
      ...(submodules.length === 0 ? {} : { submodules }),
      ...large === null ? {} : LfsFiles.told(large),
      ...(subjects.length === 0 ? {} : { subjects })
    }
    const parent = head ?? merges.at(-1)?.onto ?? baseSha
    if (tree === (parent === baseSha ? baseTree : yield* TreeMerge.treeOf(repository, parent))) {
      return head === null ? yield* new NoChanges({ repo }) : { sha: head, ...about }
    }
    const isOnAgents = signing === null && own !== undefined && merges.length === 0 &&
      (head === null || (yield* Push.goesOnFrom(repository, own, head)))
    const sha = isOnAgents
      ? tree === ownTree ? own : yield* commitOf(repository, options, tree, own, signing)
      : yield* commitOf(
        repository,
        options,
        tree,
        parent,
        signing,
        signing === null && head === null && merges.length === 0 ? [] : subjects
      )
    yield* tell(repository, sha, own)
    return { sha, ...about }
  },
  (self, { repo }) =>
    self.pipe(
      Effect.catchTag("Unsound", ({ reason }) => new PushFailed({ repo, detail: reason, retryable: false })),
      Effect.catchTag("GitFailed", explained("commit a working tree", repo, (failure) => new PushFailed({ repo, ...explain(failure) }))),
      Effect.scoped
    )
)

const explain = ({ reason }: GitFailed) =>
  reason === "timeout" ?
    { detail: `Committing the changes took too long: git has ${PATIENCE.snapshot} seconds for it.`, retryable: true }
    : reason === "lost" ?
    { detail: "Its box went away meanwhile.", retryable: true }
    : reason === "output" ?
    {
      detail: `There are too many changes to commit: more than ${MAXIMUM_FILES} files, or ${MAXIMUM_NAMES / 2 ** 20} MiB of their names.`,
      retryable: false
    }
    : { detail: "Git could not commit the changes.", retryable: false }

/** The tree without these. */
export const without = Effect.fnUntraced(function*(repository: HostRepository, tree: string, paths: ReadonlyArray<Buffer>) {
  const env = { GIT_INDEX_FILE: yield* scratch(repository) }
  yield* run(repository, ["read-tree", tree], { env })
  yield* run(repository, ["update-index", "--force-remove", "-z", "--stdin"], { env, input: terminated(paths) })
  return line(yield* run(repository, ["write-tree"], { env }))
}, Effect.scoped)
