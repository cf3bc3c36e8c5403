/** A repository of this machine as one commit in a bare repository of its own: what sandboxes can be made of, also without a commit. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { git, line, terminated } from "@slipway/git/Git"
import { DateTime, Effect } from "effect"
import { copyFile, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as LocalFiles from "./LocalFiles.ts"
import * as LocalGit from "./LocalGit.ts"

export interface Snapshot {
  /** Of the bare repository; it has no other one. */
  readonly branch: string
  readonly commit: string
}

/** To read and digest all files of a checkout. */
const ADD_WITHIN = "10 minutes"

/** Where git keeps something of the repository, also of a worktree beside its checkout. */
const placeOf = (folder: string, name: string) => LocalGit.run(folder, ["rev-parse", "--path-format=absolute", "--git-path", name])

/** A commit of the files that git knows or does not ignore, as they lie there, on top of the one that HEAD names, if it does. */
const commitFiles = Effect.fnUntraced(function*(folder: string, into: string, paths: ReadonlyArray<string>) {
  const env = { GIT_DIR: into, GIT_WORK_TREE: folder, GIT_INDEX_FILE: join(into, "working.index") }
  // Another repository in it is listed as a folder, and is no part of it.
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
 * Makes it in the folder `into`, which is not there yet: of the commit that HEAD names, or of the files as they are. It borrows the
 * objects of the repository, in which nothing is changed.
 */
export const make = Effect.fn("Snapshot.make")(function*(folder: string, which: "commit" | "working", into: string) {
  const files = yield* LocalFiles.open(folder, which)
  const branch = yield* LocalGit.defaultBranch(folder)
  const [objects, shallow] = yield* Effect.all([placeOf(folder, "objects"), placeOf(folder, "shallow")])
  yield* git(["init", "--quiet", "--bare", "--template=", `--initial-branch=${branch}`, into])
  yield* Effect.promise(async () => {
    await mkdir(join(into, "objects/info"), { recursive: true })
    await writeFile(join(into, "objects/info/alternates"), `${objects}\n`)
    // There is none of a whole history.
    await copyFile(shallow, join(into, "shallow")).catch(ifAbsent(undefined))
  })
  const commit = files.commit ?? (yield* commitFiles(folder, into, files.paths))
  yield* git(["update-ref", `refs/heads/${branch}`, commit], { env: { GIT_DIR: into } })
  return { branch, commit } satisfies Snapshot
})
