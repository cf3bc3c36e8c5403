/** Commits of remotes: fetched into a mirror, or looked for in their history. */
import { CloneFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { missingStart, NO_COMMITS } from "@slipway/domain/source/rules/StartCommit"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Effect, Option } from "effect"
import { utimes } from "node:fs/promises"
import { join } from "node:path"
import { git, type GitFailed, line } from "../Git.ts"
import { explained } from "../GitFailure.ts"
import { explain, type Explanation, knownTips, transport, type Transport, unsupported } from "../Remotes.ts"
import * as Ancestry from "./Ancestry.ts"
import { bytesText, excessOf } from "./CheckoutSize.ts"
import { download } from "./Download.ts"
import { mirrorName, readKnown } from "./MirrorFiles.ts"
import { landingSite, type OpenMirrors, use, watchSize } from "./OpenMirrors.ts"

export interface FetchedCommit {
  readonly sha: string
  /** The branch it is the tip of, or `null` when a tag or a commit was asked for. */
  readonly branch: string | null
  /** The folder with the objects, for `objects/info/alternates`. */
  readonly objects: string
  /** For `shallow`; empty when the history is whole. */
  readonly shallow: ReadonlyArray<string>
  /** Whether it had to be downloaded. */
  readonly isNew: boolean
}

/** A branch goes before a tag of the same name. An annotated tag stands for its commit. */
const resolve = Effect.fnUntraced(function*(via: Transport, name: string) {
  const known = (yield* knownTips(via, [name]))?.get(name)
  if (known !== undefined) return { sha: known, branch: name }
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

/** The commit is there until the scope closes, and after that as long as it is borrowed. */
export const fetch = Effect.fn("Mirrors.fetch")(function*(
  mirrors: OpenMirrors,
  repo: RepoName,
  remote: Remote,
  ref: string | undefined,
  defaultBranch: string
) {
  const { depth, directory, limits, locked, tooMuch } = mirrors
  const refuse = (explanation: Explanation) => new CloneFailed({ repo, ...explanation })
  const failed = (failure: GitFailed | Explanation) =>
    "detail" in failure ? Effect.fail(refuse(failure)) : explained("read a repository", repo, (cause) => refuse(explain(cause)))(failure)

  const via = transport(remote)
  if (via === undefined) return yield* refuse(unsupported)
  const name = ref ?? defaultBranch
  if (!isRefName(name)) return yield* refuse({ detail: "The branch, tag or commit has no valid name.", retryable: false })

  const wanted = isCommitId(name) && ref !== undefined
    ? { sha: name.toLowerCase(), branch: null }
    : yield* Effect.catch(resolve(via, name), failed)
  if (wanted === "empty") return yield* refuse({ detail: NO_COMMITS, retryable: false })
  if (wanted === "missing") return yield* refuse({ detail: missingStart(name, ref), retryable: false })

  const mirror = join(directory, mirrorName(repo, remote, depth))
  yield* use(mirrors, mirror)
  const { sha } = wanted
  // A tree whose commit is here does not wait for the download of another one.
  const here = yield* readKnown(mirror, sha)
  const known = Option.isSome(here) ? here.value : yield* readKnown(mirror, sha).pipe(
    Effect.flatMap((now) => Option.isSome(now) ? Effect.succeed(now.value) : download(mirrors, mirror, sha, wanted.branch !== null, via)),
    locked(mirror),
    Effect.catch(failed)
  )
  // The limits may be others than those it was fetched under.
  const excess = excessOf(known, limits, tooMuch)
  if (excess !== undefined) return yield* refuse(excess)
  const now = new Date(yield* Clock.currentTimeMillis)
  yield* Effect.promise(() => utimes(mirror, now, now))
  const fetched: FetchedCommit = {
    sha: known.commit,
    branch: wanted.branch,
    objects: join(mirror, "objects"),
    shallow: known.shallow,
    isNew: Option.isNone(here)
  }
  return fetched
})

/** As `Ancestry.find` says. Nothing of it stays. */
export const findRef = Effect.fn("Mirrors.findRef")(function*(
  mirrors: OpenMirrors,
  repo: RepoName,
  remote: Remote,
  sha: string,
  refs: ReadonlyArray<string>
) {
  const { limits, tooMuch } = mirrors
  const via = transport(remote)
  if (via === undefined) return yield* new CloneFailed({ repo, ...unsupported })
  const site = yield* landingSite(mirrors)
  const tooLarge = () =>
    new CloneFailed({ repo, ...tooMuch(`Its history takes more than ${bytesText(limits.fetchBytes)}`, "maximumFetchBytes") })
  return yield* Ancestry.find(via, sha, refs, site).pipe(
    Effect.catchTag(
      "GitFailed",
      explained("read the history of a repository", repo, (failure) => new CloneFailed({ repo, ...explain(failure) }))
    ),
    Effect.raceFirst(watchSize(mirrors, join(site, "objects", "pack"), tooLarge))
  )
}, Effect.scoped)
