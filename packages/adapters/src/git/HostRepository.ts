/**
 * The host's own repository of one working tree: its GIT_DIR lies outside the tree, borrows the mirror's objects and is
 * the only one a git process of ours ever uses. The agent gets a throw-away `.git` in the tree, which no git of ours reads.
 */
import { RepoName } from "@slipway/domain/source/RepoRef"
import { Counter } from "@slipway/domain/Text"
import { Effect, Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import * as Overlays from "../hosts/overlay/Overlays.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import { codeOf } from "../node/ErrorCode.ts"
import { git, type GitFailed, type GitOptions } from "./Git.ts"
import { layOut, setAttributes } from "./GitDir.ts"
import * as IndexTimes from "./IndexTimes.ts"

const Prepared = Schema.Struct({
  repo: RepoName,
  /** Name of the tree's folder in the workspace. */
  folder: Schema.String,
  baseSha: Schema.String,
  /** The branch `baseSha` was the tip of. */
  baseRef: Schema.NullOr(Schema.String),
  /** Milliseconds since the epoch; dates the snapshots. */
  preparedAt: Counter
})
type Prepared = typeof Prepared.Type
const PreparedFile = Schema.fromJsonString(Prepared)

export interface HostRepository extends Prepared {
  readonly gitDir: string
  /** The host folder that holds the tree's folder. The agent may replace what is in it, but not this folder. */
  readonly workspace: string
}

// The checkout of a large repository, or the hashing of a large tree.
const TIMEOUT = "5 minutes"

/** Git over what is in the repository. There is no tree to it, so nothing that an agent wrote can be looked at by mistake. */
export const run = (
  { gitDir }: Pick<HostRepository, "gitDir">,
  args: Parameters<typeof git>[0],
  options: GitOptions = {}
): Effect.Effect<Buffer, GitFailed> =>
  git(args, { timeout: TIMEOUT, ...options, config: ["core.bare=true", ...options.config ?? []], env: { GIT_DIR: gitDir, ...options.env } })

const markOf = (gitDir: string): string => join(gitDir, "slipway.json")

/** The repository in `gitDir`. */
export const open = (gitDir: string, workspace: string): Effect.Effect<Option.Option<HostRepository>> =>
  Effect.promise(() => readFile(markOf(gitDir), "utf8").catch(() => undefined)).pipe(
    Effect.map((content) =>
      Option.map(
        content === undefined ? Option.none() : Schema.decodeOption(PreparedFile)(content),
        (prepared) => ({ ...prepared, gitDir, workspace })
      )
    )
  )

/** A name that no other repository has, nor one that is in this one's place later: for what this process remembers of it. */
export const identity = ({ gitDir }: Pick<HostRepository, "gitDir">): Effect.Effect<string> =>
  Effect.promise(async () => {
    const { birthtimeNs, ino } = await stat(gitDir, { bigint: true })
    return `${gitDir} ${ino} ${birthtimeNs}`
  })

/** The folders whose objects the repositories in `directory` borrow. A folder that is not there has none. */
export const borrowed = async (directory: string): Promise<ReadonlyArray<string>> => {
  const found = await Promise.all(
    (await orAbsent(readdir(directory), [])).map((name) =>
      orAbsent(readFile(join(directory, name, "objects", "info", "alternates"), "utf8"), "")
    )
  )
  return found.flatMap((text) => text.split("\n")).filter((path) => path !== "")
}

/**
 * Deletes what processes that were killed left in the scratch folders of the repositories in `directory`, and brings those
 * up to date that an earlier version made.
 */
export const sweep = async (directory: string): Promise<void> => {
  const names = await orAbsent(readdir(directory), [])
  await Promise.all(names.map((name) => orAbsent(settle(join(directory, name)), undefined)))
  const folders = names.map((name) => join(directory, name, "scratch"))
  const left = await Promise.all(folders.map(async (folder) => (await orAbsent(readdir(folder), [])).map((name) => join(folder, name))))
  // Where a git that outlived them still writes, it stays until the next time.
  await Promise.allSettled(left.flat().map((path) => rm(path, { recursive: true, force: true })))
}

/** Boxes of other users read the repository where it is shown to them; who is not shown it does not come through the folder above it. */
const settle = async (gitDir: string): Promise<void> => {
  await setAttributes(gitDir)
  await Promise.all([chmod(gitDir, 0o755), chmod(join(gitDir, "index"), 0o644)])
}

// Any other failure is no reason to believe that nothing is borrowed.
const orAbsent = <A>(self: Promise<A>, absent: A): Promise<A> =>
  self.catch((cause: unknown) => {
    if (codeOf(cause) === "ENOENT" || codeOf(cause) === "ENOTDIR") return absent
    throw cause
  })

export interface Making extends HostRepository {
  /** Where it is made, before it is moved to its place: a folder that nobody used before. */
  readonly site: string
  /** The mirror's objects, as this process and as the agent see them. */
  readonly objects: string
  readonly objectsInBox: string
  /** The commits whose parents were not fetched. */
  readonly shallow: ReadonlyArray<string>
}

/** What is made on a site: the repository and the tree. */
export const partsOf = ({ site }: Pick<Making, "site">) => ({ gitDir: join(site, "git"), tree: join(site, "tree") })

/** The repository without a tree, on its site. */
export const layOutSite = (making: Making): Effect.Effect<void> =>
  Effect.promise(async () => {
    const { gitDir, tree } = partsOf(making)
    await mkdir(tree, { recursive: true })
    await mkdir(join(gitDir, "scratch"), { recursive: true })
    await layOut(gitDir, { head: making.baseSha, objects: making.objects, shallow: making.shallow })
  })

/** Git over the tree of a site, which nobody else has seen yet. */
export const onSite = (making: Making, args: Parameters<typeof git>[0], options: GitOptions = {}): Effect.Effect<Buffer, GitFailed> => {
  const { gitDir, tree } = partsOf(making)
  return git(args, { timeout: TIMEOUT, ...options, env: { GIT_DIR: gitDir, GIT_WORK_TREE: tree, ...options.env } })
}

/** What the agent's own `.git` starts with. */
export interface AgentGit {
  /** What its `HEAD` holds. */
  readonly head: string
  /** Commits by the full names of refs. */
  readonly refs: ReadonlyMap<string, string>
  /** The index, a file to be copied. */
  readonly index: string
}

/** Lays out the agent's `.git` and says what the repository is, as the last thing on the site. */
export const settleSite = Effect.fnUntraced(function*(making: Making, { head, index, refs }: AgentGit) {
  const { baseRef, baseSha, folder, objectsInBox, preparedAt, repo, shallow } = making
  const { gitDir, tree } = partsOf(making)
  yield* IndexTimes.settle(tree, baseSha, [...new Set([join(gitDir, "index"), index])])
  const mark = yield* Effect.orDie(Schema.encodeEffect(PreparedFile)({ repo, folder, baseSha, baseRef, preparedAt }))
  yield* Effect.promise(async () => {
    const agents = join(tree, ".git")
    const lines = Array.from(refs, ([name, sha]) => ({ name, line: `${sha} ${name}\n` }))
    // In the order of bytes, as the header says.
    lines.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
    await layOut(agents, {
      head,
      refs: lines.length === 0 ? "" : `# pack-refs with: sorted\n${lines.map(({ line }) => line).join("")}`,
      objects: objectsInBox,
      shallow,
      config: "[user]\n\tname = Agent\n\temail = agent@sandbox.invalid\n[gc]\n\tauto = 0\n"
    })
    await copyFile(index, join(agents, "index"))
    await writeFile(markOf(gitDir), mark)
    await settle(gitDir)
  })
})

/** Deletes what is in the place of what was made. What it was shown of caches is not its own, and stays. */
export const clearPlace = Effect.fnUntraced(function*({ folder, gitDir, workspace }: Making) {
  yield* Effect.promise(() => Overlays.uncover(dirname(workspace), join(basename(workspace), folder)))
  yield* deleteTree(join(workspace, folder))
  yield* deleteTree(gitDir)
})

/** Moves it from its site to its place, which is clear. With the last move it is there. */
export const place = (making: Making): Effect.Effect<void> =>
  Effect.uninterruptible(Effect.promise(async () => {
    const { gitDir, tree } = partsOf(making)
    await mkdir(making.workspace, { recursive: true, mode: 0o700 })
    await mkdir(dirname(making.gitDir), { recursive: true, mode: 0o700 })
    await rename(tree, join(making.workspace, making.folder))
    await rename(gitDir, making.gitDir)
  }))

/**
 * Checks out `baseSha`. It is made on a site of its own, since a process of a worker that was killed may still be at work
 * on another; with the last move it is there.
 */
export const make = Effect.fn("HostRepository.make")(function*(making: Making) {
  const { baseRef, baseSha } = making
  yield* layOutSite(making)
  yield* onSite(making, ["read-tree", "-m", "-u", baseSha])
  yield* settleSite(making, {
    head: baseRef === null ? baseSha : `ref: refs/heads/${baseRef}`,
    refs: new Map(baseRef === null ? [] : [[`refs/heads/${baseRef}`, baseSha], [`refs/remotes/origin/${baseRef}`, baseSha]]),
    index: join(partsOf(making).gitDir, "index")
  })
  // A tree without a repository is what a crash left between the two moves: no agent has seen it.
  yield* clearPlace(making)
  yield* place(making)
})

/** A name in the repository for a file or folder that lives as long as the scope. */
export const scratch = (repository: HostRepository) =>
  Effect.acquireRelease(
    Effect.sync(() => join(repository.gitDir, "scratch", randomUUID())),
    (path) => Effect.promise(() => Promise.all([rm(path, { recursive: true, force: true }), rm(`${path}.lock`, { force: true })]))
  )
