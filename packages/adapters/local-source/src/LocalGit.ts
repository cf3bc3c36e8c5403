/**
 * Git on a repository of this machine that belongs to the operator. No program of the repository's configuration runs, with one
 * exception: a merge driver that the operator assigned in its `info/attributes`, as with `git merge`.
 */
import { LruCache } from "@slipway/domain/store/LruCache"
import { fields, git, type GitFailed, type GitOptions, line } from "@slipway/git/Git"
import * as LocalRefs from "@slipway/git/LocalRefs"
import * as Shortstat from "@slipway/git/save/Shortstat"
import { DateTime, Effect } from "effect"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { join } from "node:path"

/** Whether `path` is the top folder of a checkout; otherwise a bare repository. */
export const isCheckout = (path: string): boolean => existsSync(join(path, ".git"))

const gitDir = (path: string): string => isCheckout(path) ? join(path, ".git") : path

export const bytes = (
  path: string,
  args: Parameters<typeof git>[0],
  { env, ...options }: GitOptions = {}
): Effect.Effect<Buffer, GitFailed> => Effect.suspend(() => git(args, { ...options, env: { ...env, GIT_DIR: gitDir(path) } }))

export const run = (path: string, args: Parameters<typeof git>[0], options?: GitOptions): Effect.Effect<string, GitFailed> =>
  Effect.map(bytes(path, args, options), line)

/** The branch of HEAD; without one, `main`, `master` or the first branch. */
export const defaultBranch = Effect.fnUntraced(function*(path: string) {
  const named = yield* Effect.promise(() => LocalRefs.head(path))
  if (named !== undefined) return named
  const head = yield* run(path, ["symbolic-ref", "--quiet", "--short", "HEAD"]).pipe(Effect.catchTag("GitFailed", () => Effect.succeed("")))
  if (head !== "") return head
  const branches = (yield* run(path, ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])).split("\n")
  return ["main", "master"].find((branch) => branches.includes(branch)) ?? branches[0] ?? "main"
})

/** The commits of branches; missing branches are left out. */
export const tips = Effect.fnUntraced(function*(path: string, ...branches: ReadonlyArray<string>) {
  const known = yield* Effect.promise(() => LocalRefs.tips(path, branches))
  if (known !== undefined) return known
  const refs = branches.map((branch) => `refs/heads/${branch}`)
  const found = (yield* run(path, ["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", ...refs])).split("\n")
  return new Map(found.map((entry) => {
    const space = entry.indexOf(" ")
    return [entry.slice(space + 1), entry.slice(0, space)] as const
  }))
})

/** Whether `head` is in the history of `base`. A missing commit is in no history. */
export const contains = (path: string, base: string, head: string): Effect.Effect<boolean> =>
  Effect.match(run(path, ["merge-base", "--is-ancestor", head, base]), { onSuccess: () => true, onFailure: () => false })

/** By folder and both commits, whose difference never changes. */
const counted = new LruCache<string, Shortstat.Counts>(1_000)

/** Counts the changes of `head` since it left `base`, with renames. Both are commit ids. */
export const counts = Effect.fnUntraced(function*(path: string, base: string, head: string) {
  const name = `${path} ${base} ${head}`
  const known = counted.get(name)
  if (known !== undefined) return known
  const summary = yield* run(path, [
    "diff",
    "--shortstat",
    "--find-renames",
    "-l500",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=all",
    `${base}...${head}`,
    "--"
  ])
  const counts = Shortstat.parse(summary)
  counted.set(name, counts)
  return counts
})

/** `undefined`: missing, or not a commit. */
export const commit = (path: string, sha: string): Effect.Effect<string | undefined> =>
  Effect.orElseSucceed(run(path, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${sha}^{commit}`]), () => undefined)

/** `undefined`: there is none. */
export const mergeBase = (path: string, one: string, other: string): Effect.Effect<string | undefined> =>
  Effect.orElseSucceed(run(path, ["merge-base", one, other]), () => undefined)

/** The commit of `base` before a merge commit added `head` to its history; `undefined`: it was added in another way. */
export const beforeMerge = Effect.fnUntraced(function*(path: string, base: string, head: string) {
  const merges = yield* run(path, ["rev-list", "--merges", "--ancestry-path", "--parents", `${head}..${base}`])
  for (const merge of merges.split("\n")) {
    const [, before, ...others] = merge.split(" ")
    if (others.includes(head)) return before
  }
})

export interface DiffOptions {
  readonly statWidth?: number | undefined
  /** With the contents of binary files, so that `git apply` accepts the patch. */
  readonly isWhole?: boolean
  readonly maximumBytes?: number
}

/**
 * The changes between two commits as git's bytes: a patch, or with `statWidth` a line per file of that many columns. Names contain no
 * control characters, because git quotes them.
 */
export const diff = (
  path: string,
  from: string,
  to: string,
  { isWhole = false, maximumBytes, statWidth }: DiffOptions
): Effect.Effect<Buffer, GitFailed> =>
  bytes(path, [
    "diff-tree",
    "-r",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--find-renames",
    "-l500",
    // The commit of a submodule is worth reviewing.
    "--ignore-submodules=none",
    "--submodule=short",
    ...statWidth !== undefined ? [`--stat=${statWidth}`] : isWhole ? ["--patch", "--binary"] : ["--patch"],
    from,
    to,
    "--"
  ], { config: ["core.quotePath=false"], ...(maximumBytes === undefined ? {} : { maximumBytes }) })

/** The last second that dates can have. */
const MAX_SECONDS = 8_640_000_000_000
/** Bytes of the commits that are read. */
const MAX_LOG_BYTES = 2 ** 20

/** The newest commits of `head` that are not in the history of `before`, oldest first, with so many characters of each text. */
export const log = Effect.fnUntraced(function*(
  path: string,
  before: string,
  head: string,
  { characters, commits }: { readonly commits: number; readonly characters: number }
) {
  // Git itself cuts the texts: a title may be as long as a file.
  const text = `%<(${characters},trunc)`
  const format = `%H%x00%at%x00${text}%an%x00${text}%s`
  const options = ["-z", "--topo-order", "--no-color", "--no-show-signature", `--max-count=${commits}`, `--format=${format}`]
  const output = yield* bytes(path, ["log", ...options, `${before}..${head}`, "--"], { maximumBytes: MAX_LOG_BYTES })
  const all = fields(output).map((field) => field.toString())
  return Array.from({ length: Math.floor(all.length / 4) }, (_, i) => {
    const [sha = "", seconds = "", author = "", title = ""] = all.slice(4 * i, 4 * i + 4)
    const cut = (text: string) => text.trimEnd().slice(0, characters)
    // A commit may give any time.
    return { sha, seconds: Math.min(Number(seconds) || 0, MAX_SECONDS), author: cut(author), title: cut(title) }
  }).toReversed()
})

/** The number of commits of `head` that are not in the history of `before`. */
export const countCommits = (path: string, before: string, head: string): Effect.Effect<number, GitFailed> =>
  Effect.map(run(path, ["rev-list", "--count", `${before}..${head}`, "--"]), Number)

/** The folder in which a branch is checked out, or `undefined`. */
export const checkedOutIn = Effect.fnUntraced(function*(path: string, branch: string) {
  let folder = ""
  for (const field of fields(yield* bytes(path, ["worktree", "list", "--porcelain", "-z"])).map(String)) {
    if (field.startsWith("worktree ")) folder = field.slice("worktree ".length)
    if (field === `branch refs/heads/${branch}`) return folder
  }
})

/** Whether the checkout has no unfinished operation and no change of a tracked file. Other checkouts are left alone. */
export const isClean = Effect.fnUntraced(function*(folder: string) {
  const env = { GIT_WORK_TREE: folder }
  const status = yield* run(folder, ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"], { env })
  if (status !== "") return false
  const pending = yield* Effect.forEach(
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"],
    (name) => Effect.match(run(folder, ["rev-parse", "--verify", "--quiet", name]), { onSuccess: () => true, onFailure: () => false })
  )
  return !pending.includes(true)
})

/** Whether checking out a commit would run filter programs, such as LFS. */
export const hasFilters = Effect.fnUntraced(function*(path: string, sha: string) {
  const files = fields(yield* bytes(path, ["ls-tree", "-r", "-z", "--name-only", sha])).filter((name) =>
    /(?:^|\/)\.gitattributes$/u.test(name.toString("latin1"))
  )
  // A name with a line feed cannot be asked for in lines. Such a repository must be merged by hand.
  if (files.some((name) => name.includes(10))) return true
  const contents = yield* run(path, ["cat-file", "--batch"], {
    input: Buffer.concat(files.map((name) => Buffer.concat([Buffer.from(`${sha}:`), name, Buffer.from("\n")])))
  })
  const own = join(gitDir(path), "info/attributes")
  return /(?:^|\s)filter=/mu.test(contents) ||
    existsSync(own) && /(?:^|\s)filter=/mu.test(yield* Effect.promise(() => readFile(own, "utf8")))
})

/**
 * Moves the branch that is checked out in `folder` to a later commit, with its files. Fails without changes if an untracked file is in
 * the way.
 */
export const fastForward = (folder: string, sha: string): Effect.Effect<void, GitFailed> =>
  Effect.asVoid(run(folder, ["merge", "--ff-only", "--no-autostash", "--no-verify-signatures", "--no-stat", "--quiet", sha], {
    env: { GIT_WORK_TREE: folder, GIT_COMMITTER_NAME: "Slipway", GIT_COMMITTER_EMAIL: "slipway@localhost" }
  }))

/** The tree of a merge of `head` into `base`, made without a checkout; `undefined`: a conflict. */
export const mergedTree = (path: string, base: string, head: string): Effect.Effect<string | undefined, GitFailed> =>
  run(path, ["merge-tree", "--write-tree", "--no-messages", base, head]).pipe(
    Effect.catchIf(({ code }) => code === 1, () => Effect.succeed(undefined))
  )

export interface Commit {
  readonly tree: string
  readonly parents: ReadonlyArray<string>
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  readonly at: DateTime.Utc
}

/** Makes a commit that no branch has yet, and returns its id. */
export const makeCommit = (path: string, { at, author, message, parents, tree }: Commit): Effect.Effect<string, GitFailed> => {
  const date = `@${Math.floor(DateTime.toEpochMillis(at) / 1_000)} +0000`
  return run(path, ["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-F", "-"], {
    input: message,
    env: {
      GIT_AUTHOR_NAME: author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: author.name,
      GIT_COMMITTER_EMAIL: author.email,
      GIT_COMMITTER_DATE: date
    }
  })
}

/** Moves a branch from one commit to another. `null` deletes it. Fails if the branch points elsewhere. */
export const moveBranch = (path: string, branch: string, from: string, to: string | null): Effect.Effect<void, GitFailed> =>
  Effect.asVoid(
    run(path, ["update-ref", "--no-deref", ...(to === null ? ["-d", `refs/heads/${branch}`, from] : [`refs/heads/${branch}`, to, from])])
  )
