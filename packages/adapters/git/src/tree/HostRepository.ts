/**
 * The host's own repository of one working tree: its GIT_DIR lies outside the tree, borrows the mirror's objects and is
 * the only one a git process of ours ever uses. The agent gets a throw-away `.git` in the tree, which no git of ours reads.
 */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { namesIn, textIn } from "@slipway/machine/node/IsThere"
import { Effect, Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { chmod, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { git, type GitFailed, type GitOptions } from "../Git.ts"
import { type Layout, layOut, setAttributes } from "../RepositoryLayout.ts"
import type { Checkout, Tree } from "./TreePlace.ts"

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
  readonly tree: Tree
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

/** The repository in `gitDir`. `treeOf`: its tree, in that folder of the workspace. */
export const open = (gitDir: string, treeOf: (folder: string) => Tree): Effect.Effect<Option.Option<HostRepository>> =>
  Effect.promise(() => textIn(markOf(gitDir), undefined)).pipe(
    Effect.map((content) =>
      Option.map(
        content === undefined ? Option.none() : Schema.decodeOption(PreparedFile)(content),
        (prepared) => ({ ...prepared, gitDir, tree: treeOf(prepared.folder) })
      )
    )
  )

/** A unique name for caches: neither another repository nor a later one at the same path has it. */
export const identity = ({ gitDir }: Pick<HostRepository, "gitDir">): Effect.Effect<string> =>
  Effect.promise(async () => {
    const { birthtimeNs, ino } = await stat(gitDir, { bigint: true })
    return `${gitDir} ${ino} ${birthtimeNs}`
  })

/** The folders whose objects the repository borrows. */
export const lenders = async (gitDir: string): Promise<ReadonlyArray<string>> =>
  (await textIn(join(gitDir, "objects", "info", "alternates"), "")).split("\n").filter((path) => path !== "")

/** The folders whose objects the repositories in `directory` borrow. A folder that is not there has none. */
export const borrowed = async (directory: string): Promise<ReadonlyArray<string>> => {
  const found = await Promise.all((await namesIn(directory)).map((name) => lenders(join(directory, name))))
  return found.flat()
}

/**
 * Deletes what processes that were killed left in the scratch folders of the repositories in `directory`, and brings those
 * up to date that an earlier version made.
 */
export const sweep = async (directory: string): Promise<void> => {
  const names = await namesIn(directory)
  await Promise.all(names.map((name) => settle(join(directory, name)).catch(ifAbsent(undefined))))
  const folders = names.map((name) => join(directory, name, "scratch"))
  const left = await Promise.all(folders.map(async (folder) => (await namesIn(folder)).map((name) => join(folder, name))))
  // Where a git that outlived them still writes, it stays until the next time.
  await Promise.allSettled(left.flat().map((path) => rm(path, { recursive: true, force: true })))
}

/** Boxes of other users read the repository where it is shown to them; who is not shown it does not come through the folder above it. */
export const settle = async (gitDir: string): Promise<void> => {
  await setAttributes(gitDir)
  await Promise.all([chmod(gitDir, 0o755), chmod(join(gitDir, "index"), 0o644), openObjects(join(gitDir, "objects"))])
}

const READABLE = 0o444
const PASSABLE = 0o055

/**
 * Makes objects readable for the box, whose git fails where it lacks one: packs of an earlier version were for its own user alone, and
 * so are those that git writes under a narrow umask.
 */
const openObjects = async (folder: string): Promise<void> => {
  const allow = async (path: string, rights: number): Promise<void> => {
    const { mode } = await stat(path)
    if ((mode & rights) !== rights) await chmod(path, mode & 0o777 | rights)
  }
  await allow(folder, PASSABLE)
  // One after the other: there may be some thousands.
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await openObjects(path)
    else if (entry.isFile()) await allow(path, READABLE)
  }
}

export interface Making extends Prepared {
  readonly sandboxId: SandboxId
  /** Where the repository is to be. */
  readonly gitDir: string
  /** The folder in which it is made before it is moved to its place: a new folder. */
  readonly site: string
  /** The mirror's objects. */
  readonly objects: string
  /** The commits whose parents were not fetched. */
  readonly shallow: ReadonlyArray<string>
}

/** The repository on its site. */
export const madeIn = ({ site }: Pick<Making, "site">): string => join(site, "git")

export const layOutSite = (making: Making): Effect.Effect<void> =>
  Effect.promise(async () => {
    const gitDir = madeIn(making)
    await mkdir(join(gitDir, "scratch"), { recursive: true })
    await layOut(gitDir, { head: making.baseSha, objects: making.objects, shallow: making.shallow })
  })

/** Says what the repository is: as the last thing on its site. */
export const mark = Effect.fnUntraced(function*(making: Making) {
  const { baseRef, baseSha, folder, preparedAt, repo } = making
  const said = yield* Effect.orDie(Schema.encodeEffect(PreparedFile)({ repo, folder, baseSha, baseRef, preparedAt }))
  yield* Effect.promise(() => writeFile(markOf(madeIn(making)), said))
})

/** The checkout of a tree that was not saved before. */
export const checkoutOf = ({ baseRef, baseSha }: Making): Checkout => ({
  sha: baseSha,
  committed: baseSha,
  head: baseRef === null ? baseSha : `ref: refs/heads/${baseRef}`,
  refs: new Map(baseRef === null ? [] : [[`refs/heads/${baseRef}`, baseSha], [`refs/remotes/origin/${baseRef}`, baseSha]])
})

/** The first layout of the agent's repository, which borrows from `objects`. */
export const agentsLayout = ({ shallow }: Pick<Making, "shallow">, { head, refs }: Checkout, objects: string): Layout => {
  const lines = Array.from(refs, ([name, sha]) => ({ name, line: `${sha} ${name}\n` }))
  // In the order of bytes, as the header says.
  lines.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
  return {
    head,
    refs: lines.length === 0 ? "" : `# pack-refs with: sorted\n${lines.map(({ line }) => line).join("")}`,
    objects,
    shallow,
    config: "[user]\n\tname = Agent\n\temail = agent@sandbox.invalid\n[gc]\n\tauto = 0\n"
  }
}

/** A name in the repository for a file or folder that lives as long as the scope. */
export const scratch = (repository: Pick<HostRepository, "gitDir">) =>
  Effect.acquireRelease(
    Effect.sync(() => join(repository.gitDir, "scratch", randomUUID())),
    (path) => Effect.promise(() => Promise.all([rm(path, { recursive: true, force: true }), rm(`${path}.lock`, { force: true })]))
  )
