/**
 * Commits a tree as it is. Git says which files changed; their bytes we read ourselves, by descriptors, into a folder of
 * our own, and only those are hashed: the agent cannot swap a folder for a link and have a file of the host published.
 */
import { mkdir, open, symlink } from "node:fs/promises"
import { join } from "node:path"
import { Effect, Result } from "effect"
import { isEnvironmentFile } from "@slipway/domain/files/FileRules"
import { NoChanges, PushFailed, type SnapshotOptions } from "@slipway/domain/files/WorkingTrees"
import * as AgentCommits from "./AgentCommits.ts"
import { isNestedRepository, untracked } from "./Changes.ts"
import { fields, line, terminated } from "./Git.ts"
import { type HostRepository, run, scratch, scratchIndex } from "./HostRepository.ts"
import * as SafeTree from "./SafeTree.ts"

/** Bytes of all changed files together: more is an accident, and would fill the disk of the host. */
export const MAX_SNAPSHOT_BYTES = 1_073_741_824

/** A pure function of the tree and the options: dated by the making of the tree, so that a repeated run gives the same commit. */
export const snapshot = Effect.fn("Snapshot.snapshot")(function*(repository: HostRepository, options: SnapshotOptions, maximumBytes: number) {
  const { baseRef, baseSha, folder, preparedAt, repo, workspace } = repository
  // First: what the agent commits meanwhile is in the tree.
  const own = options.history === undefined ? undefined : yield* AgentCommits.take(repository, options.history(baseSha), maximumBytes)
  const tracked = fields(
    yield* run(repository, ["diff", "--name-only", "--no-renames", "-z", "--no-ext-diff", "--ignore-submodules=all"], {
      env: { GIT_INDEX_FILE: yield* scratchIndex(repository) }
    })
  )
  // What is new and holds secrets or another repository stays out, though the former may be ignored nowhere.
  const added = (yield* untracked(repository)).filter((path) => !isNestedRepository(path) && !isEnvironmentFile(path.toString()))

  const copies = yield* Effect.tap(scratch(repository), (path) => Effect.promise(() => mkdir(path)))
  const [present, gone]: [Array<Buffer>, Array<Buffer>] = [[], []]
  let left = maximumBytes
  for (const path of [...tracked, ...added]) {
    const copied = yield* copy(join(workspace, folder), path, copies, left)
    if (copied === "too large") {
      return yield* new PushFailed({ repo, detail: `The changed files have more than ${maximumBytes} bytes together.`, retryable: false })
    }
    if (copied === "gone") gone.push(path)
    else if (copied !== "unreadable") {
      present.push(path)
      left -= copied
    }
  }

  // An index that knows nothing of files, so that every copy is hashed.
  const env = { GIT_WORK_TREE: copies, GIT_INDEX_FILE: yield* scratch(repository) }
  yield* run(repository, ["read-tree", baseSha], { env })
  if (gone.length > 0) yield* run(repository, ["update-index", "--force-remove", "-z", "--stdin"], { env, input: terminated(gone) })
  if (present.length > 0) yield* run(repository, ["update-index", "--add", "--replace", "-z", "--stdin"], { env, input: terminated(present) })
  const tree = line(yield* run(repository, ["write-tree"], { env }))
  const treeOf = (commit: string) => Effect.map(run(repository, ["rev-parse", "--verify", `${commit}^{tree}`]), line)
  if (tree === (yield* treeOf(baseSha))) return yield* new NoChanges({ repo })
  if (own !== undefined && tree === (yield* treeOf(own))) return { sha: own, baseRef }

  const date = `@${Math.floor(preparedAt / 1_000)} +0000`
  const sha = line(
    yield* run(repository, ["commit-tree", tree, "-p", own ?? baseSha, "-F", "-"], {
      input: options.message,
      env: {
        GIT_AUTHOR_NAME: options.author.name,
        GIT_AUTHOR_EMAIL: options.author.email,
        GIT_AUTHOR_DATE: date,
        GIT_COMMITTER_NAME: options.author.name,
        GIT_COMMITTER_EMAIL: options.author.email,
        GIT_COMMITTER_DATE: date
      }
    })
  )
  return { sha, baseRef }
}, Effect.scoped)

/** Bytes copied; or `gone`: git could commit nothing there any more; `unreadable`: left as it was. */
const copy = Effect.fnUntraced(function*(tree: string, path: Buffer, target: string, maximumBytes: number) {
  const [parent, name] = SafeTree.split(path)
  const folder = yield* Effect.result(SafeTree.openFolder(tree, parent))
  if (Result.isFailure(folder)) return "gone" as const
  const stats = SafeTree.statEntry(folder.success, name)
  if (stats === "gone" || stats === "unreadable") return stats
  const destination = Buffer.concat([Buffer.from(`${target}/`), path])

  if (stats.isSymbolicLink()) {
    const link = SafeTree.readLink(folder.success, name)
    if (link === undefined) return "gone" as const
    return yield* create(destination, () => symlink(link, destination).then(() => 0))
  }
  if (!stats.isFile()) return "gone" as const
  // A second name of the file is no objection here: in a box only its own trees can be linked to.
  const file = yield* Effect.result(SafeTree.openFileIn(folder.success, name, "any"))
  if (Result.isFailure(file)) return file.failure._tag === "FileProtected" ? "unreadable" as const : "gone" as const
  const { fd, stats: { mode, size } } = file.success
  if (size > maximumBytes) return "too large" as const
  const output = yield* Effect.acquireRelease(
    create(destination, () => open(destination, "wx", (mode & 0o100) === 0 ? 0o644 : 0o755)),
    (output) => output === "unreadable" ? Effect.void : Effect.promise(() => output.close())
  )
  if (output === "unreadable") return output
  for (let position = 0; position < size;) {
    const chunk = yield* SafeTree.readChunk(fd, position, size)
    if (chunk.length === 0) break
    yield* Effect.promise(() => output.write(chunk))
    position += chunk.length
  }
  return size
}, Effect.scoped)

/** `unreadable` when the tree changed its shape while we copied it, or has a path that is too long for ours. */
const create = <A>(destination: Buffer, make: () => Promise<A>): Effect.Effect<A | "unreadable"> =>
  Effect.promise(async () => {
    const [parent] = SafeTree.split(destination)
    try {
      await mkdir(parent, { recursive: true })
      return await make()
    } catch (cause) {
      if (cause instanceof Error && "code" in cause && ["EEXIST", "ENOTDIR", "ENAMETOOLONG"].includes(String(cause.code))) return "unreadable"
      throw cause
    }
  })
