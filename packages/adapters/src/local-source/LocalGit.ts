/** What git tells of a repository on this machine that belongs to the operator. Nothing in it is run or changed. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { git, type GitFailed, line } from "../git/Git.ts"

/** `path` is a bare repository, or the top folder of a checkout. */
const gitDir = (path: string): string => existsSync(join(path, ".git")) ? join(path, ".git") : path

export const run = (path: string, args: Parameters<typeof git>[0]): Effect.Effect<string, GitFailed> =>
  Effect.map(Effect.suspend(() => git(args, { env: { GIT_DIR: gitDir(path) } })), line)

/** The branch that HEAD names; where HEAD names none, `main`, `master` or the first there is. */
export const defaultBranch = Effect.fnUntraced(function*(path: string) {
  const head = yield* run(path, ["symbolic-ref", "--quiet", "--short", "HEAD"]).pipe(Effect.catchTag("GitFailed", () => Effect.succeed("")))
  if (head !== "") return head
  const branches = (yield* run(path, ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])).split("\n")
  return ["main", "master"].find((branch) => branches.includes(branch)) ?? branches[0] ?? "main"
})

/** The commits that branches point to; absent ones are left out. */
export const tips = Effect.fnUntraced(function*(path: string, ...branches: ReadonlyArray<string>) {
  const refs = branches.map((branch) => `refs/heads/${branch}`)
  const found = (yield* run(path, ["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", ...refs])).split("\n")
  return new Map(found.map((entry) => {
    const space = entry.indexOf(" ")
    return [entry.slice(space + 1), entry.slice(0, space)] as const
  }))
})

/** Whether `base` has `head` in its history. A commit that is not there is in no history. */
export const contains = (path: string, base: string, head: string): Effect.Effect<boolean> =>
  Effect.match(run(path, ["merge-base", "--is-ancestor", head, base]), { onSuccess: () => true, onFailure: () => false })

export interface Counts {
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

/** What `head` changed since it left `base`, renames found. */
export const counts = Effect.fnUntraced(function*(path: string, base: string, head: string) {
  const summary = yield* run(path, [
    "diff", "--shortstat", "--find-renames", "-l500", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", `${base}...${head}`, "--"
  ])
  const count = (what: RegExp) => Number(what.exec(summary)?.[1] ?? 0)
  const result: Counts = {
    additions: count(/(\d+) insertion/u),
    deletions: count(/(\d+) deletion/u),
    changedFiles: count(/(\d+) file/u)
  }
  return result
})
