/**
 * Copies a repository of this machine to a bare repository with one commit, from which sandboxes can start. The repository itself needs
 * no commit.
 */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { git, line, terminated } from "@slipway/git/Git"
import { DateTime, Effect } from "effect"
import { copyFile, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as LocalFiles from "./LocalFiles.ts"
import * as LocalGit from "./LocalGit.ts"

export interface Snapshot {
  /** The only branch of the bare repository. */
  readonly branch: string
  readonly commit: string
}

/** Reading and hashing all files of a checkout. */
const ADD_WITHIN = "10 minutes"

/** The path of git's data of the repository, also for a linked worktree. */
const placeOf = (folder: string, name: string) => LocalGit.run(folder, ["rev-parse", "--path-format=absolute", "--git-path", name])

/** Commits the present tracked and unignored files, on top of HEAD's commit if there is one. */
const commitFiles = Effect.fnUntraced(function*(folder: string, into: string, paths: ReadonlyArray<string>) {
  const env = { GIT_DIR: into, GIT_WORK_TREE: folder, GIT_INDEX_FILE: join(into, "working.index") }
  // A repository within it is listed as a folder and does not belong to it.
  const files = paths.filter((path) => !path.endsWith("/"))
  yield* git(["update-index", "--add", "--remove", "-z", "--stdin"], {
    env,
    input: terminated(files.map((path) => Buffer.from(path))),
    timeout: ADD_WITHIN
  })
  const tree = line(yield* git(["write-tree"], { env }))
  const head = yield* LocalGit.commit(folder, "HEAD")
  return yield* LocalGit.makeCommit(into, {
    tree,
    parents: head === undefined ? [] : [head],
    message: "Files that are not committed\n",
    author: { name: "Slipway", email: "slipway@localhost" },
    at: yield* DateTime.now
  })
})

/**
 * Makes the copy in the new folder `into`, from the commit of HEAD or from the present files. It borrows the objects of the repository,
 * which is not changed.
 */
export const make = Effect.fn("Snapshot.make")(function*(folder: string, which: "commit" | "working", into: string) {
  const files = yield* LocalFiles.open(folder, which)
  const branch = yield* LocalGit.defaultBranch(folder)
  const [objects, shallow] = yield* Effect.all([placeOf(folder, "objects"), placeOf(folder, "shallow")])
  yield* git(["init", "--quiet", "--bare", "--template=", `--initial-branch=${branch}`, into])
  yield* Effect.promise(async () => {
    await mkdir(join(into, "objects/info"), { recursive: true })
    await writeFile(join(into, "objects/info/alternates"), `${objects}\n`)
    // Missing for a complete history.
    await copyFile(shallow, join(into, "shallow")).catch(ifAbsent(undefined))
  })
  const commit = files.commit ?? (yield* commitFiles(folder, into, files.paths))
  yield* git(["update-ref", `refs/heads/${branch}`, commit], { env: { GIT_DIR: into } })
  return { branch, commit } satisfies Snapshot
})
