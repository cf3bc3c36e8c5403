/**
 * Bare copies of repositories, one per remote URL, from which all trees on this machine borrow their objects. Only the
 * host reads and writes them. They hold no branches, just one ref for each commit a sandbox started from:
 * `refs/commits/<sha>` is written after all of the commit has arrived. Nothing is ever collected, since trees borrow.
 */
import { createHash } from "node:crypto"
import { mkdir, readFile, rm } from "node:fs/promises"
import { join } from "node:path"
import { Effect } from "effect"
import { CloneFailed } from "@slipway/domain/files/WorkingTrees"
import { isCommitId, isRefName, type RepoName } from "@slipway/domain/source/RepoRef"
import type { Remote } from "@slipway/domain/source/SourceHost"
import { git, type GitFailed, line } from "./Git.ts"
import * as KeyedLock from "./KeyedLock.ts"
import { explain, type Explanation, transport, type Transport, unsupported } from "./Remotes.ts"

export interface FetchedCommit {
  readonly sha: string
  /** The branch it is the tip of, or `null` when a tag or a commit was asked for. */
  readonly branch: string | null
  /** The folder with the objects, for `objects/info/alternates`. */
  readonly objects: string
}

/** Below the ten minutes a sandbox has to boot. */
const FETCH_TIMEOUT = "9 minutes"

/** `directory` belongs to this process alone: its locks are in memory. */
export const make = Effect.fnUntraced(function*(directory: string) {
  const locked = yield* KeyedLock.make

  const fetch = Effect.fn("Mirrors.fetch")(function*(repo: RepoName, remote: Remote, ref: string | undefined, defaultBranch: string) {
    const refuse = (explanation: Explanation) => new CloneFailed({ repo, ...explanation })
    const failed = (failure: GitFailed) =>
      Effect.andThen(Effect.logWarning("git could not read a repository", { repo, failure: failure.message }), refuse(explain(failure)))

    const via = transport(remote)
    if (via === undefined) return yield* refuse(unsupported)
    const name = ref ?? defaultBranch
    if (!isRefName(name)) return yield* refuse({ detail: "The branch, tag or commit has no valid name.", retryable: false })

    const wanted = isCommitId(name) && ref !== undefined
      ? { sha: name.toLowerCase(), branch: null }
      : yield* resolve(via, name).pipe(Effect.catchTag("GitFailed", failed))
    if (wanted === "empty") return yield* refuse({ detail: "The repository is empty: it has no commit to start from.", retryable: false })
    if (wanted === "missing") {
      return yield* refuse({
        detail: ref === undefined ? `It has no default branch "${name}".` : `It has no branch or tag "${name}".`,
        retryable: false
      })
    }

    const path = join(directory, mirrorName(repo, remote))
    const { sha } = wanted
    const download = Effect.gen(function*() {
      if (yield* holds(path, sha)) return
      yield* Effect.promise(() => clearLocks(path, sha))
      yield* git(["init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--end-of-options", path])
      yield* git([
        "fetch", "--quiet", "--no-write-fetch-head", "--no-tags", "--no-auto-maintenance", ...via.fetchArguments,
        "--end-of-options", via.url, `${sha}:refs/commits/${sha}`
      ], { ...via.options, env: { GIT_DIR: path }, timeout: FETCH_TIMEOUT })
    }).pipe(locked(path), Effect.catchTag("GitFailed", failed))
    // A tree whose commit is here does not wait for the download of another one.
    if (!(yield* holds(path, sha))) yield* download
    // What is named by a tag or an id may be a tag of its own, a folder or a file.
    const commit = wanted.branch !== null ? sha : yield* git(["rev-parse", "--verify", "--quiet", `${sha}^{commit}`], {
      env: { GIT_DIR: path }
    }).pipe(Effect.map(line), Effect.catchTag("GitFailed", () => refuse({ detail: `"${name}" is no commit.`, retryable: false })))
    return { sha: commit, branch: wanted.branch, objects: join(path, "objects") }
  })

  return { fetch }
})

/** A readable name, and a digest because the URL decides which objects may be seen. */
const mirrorName = (repo: RepoName, remote: Remote): string =>
  `${repo.toLowerCase().replace("/", "+").slice(0, 100)}-${createHash("sha256").update(remote.url).digest("hex").slice(0, 16)}.git`

/** A branch goes before a tag of the same name. An annotated tag stands for its commit. */
const resolve = Effect.fnUntraced(function*(via: Transport, name: string) {
  const advertised = (patterns: ReadonlyArray<string>) =>
    git(["ls-remote", "--heads", "--tags", ...via.fetchArguments, "--end-of-options", via.url, ...patterns], via.options)
  const [branch, tag] = [`refs/heads/${name}`, `refs/tags/${name}`]
  const shas = new Map(
    line(yield* advertised([branch, tag, `${tag}^{}`])).split("\n").map((entry) => {
      const [sha = "", ref = ""] = entry.split("\t")
      return [ref, sha]
    })
  )
  const tip = shas.get(branch)
  if (tip !== undefined) return { sha: tip, branch: name }
  const tagged = shas.get(`${tag}^{}`) ?? shas.get(tag)
  if (tagged !== undefined) return { sha: tagged, branch: null }
  return (yield* advertised([])).length === 0 ? "empty" : "missing"
})

const commitRef = (mirror: string, sha: string): string => join(mirror, "refs", "commits", sha)

const holds = (mirror: string, sha: string): Effect.Effect<boolean> =>
  Effect.promise(() => readFile(commitRef(mirror, sha), "utf8").then((content) => content.trim() === sha, () => false))

/** What a git process leaves that was killed halfway, and a ref that a power failure left empty. We hold the lock. */
const clearLocks = async (mirror: string, sha: string): Promise<void> => {
  await mkdir(mirror, { recursive: true })
  const ref = commitRef(mirror, sha)
  await Promise.all([ref, `${ref}.lock`, join(mirror, "config.lock"), join(mirror, "HEAD.lock")].map((file) => rm(file, { force: true })))
}
