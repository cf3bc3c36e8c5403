/**
 * Bare copies of repositories from which all trees on this machine borrow their objects. Only the host reads and writes
 * them. One per remote URL, since a tree can read all that is in its mirror, and per depth of history:
 *
 *     <directory>/<repository>.git/objects          only grows: what was borrowed once stays
 *     <directory>/<repository>.git/refs/commits/    what a fetch tells the remote that we have
 *     <directory>/<repository>.git/commits/<sha>    what is known of a commit; written when all of it is there
 *     <directory>/incoming/                         downloads under way
 *     <directory>/removed/                          mirrors on their way out
 *
 * A download lands in a repository of its own and is moved to the mirror when it is whole. So one that is broken off
 * leaves neither locks nor objects in a mirror, and may go on in an orphan of a killed worker without doing harm.
 */
import { CloneFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { Clock, Duration, Effect, Option, Schema } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { renameSync, statSync } from "node:fs"
import { lstat, mkdir, readdir, rename, rm, utimes } from "node:fs/promises"
import { basename, join } from "node:path"
import { deleteTree } from "../../node/DeleteTree.ts"
import * as DiskTrouble from "../../node/DiskTrouble.ts"
import { ifAbsent, namesIn, textIn } from "../../node/IsThere.ts"
import * as KeyedLock from "../../node/KeyedLock.ts"
import { type OptionName, OptionNames } from "../../options/OptionNames.ts"
import { git, type GitFailed, type GitOptions, line } from "../Git.ts"
import { layOut, replaceFile } from "../GitDir.ts"
import { explain, type Explanation, knownTips, transport, type Transport, unsupported } from "../Remotes.ts"
import * as Ancestry from "./Ancestry.ts"

export interface Limits {
  /** Time of one download. */
  readonly fetchTime: Duration.Duration
  /** Bytes of one download, as they are on disk. */
  readonly fetchBytes: number
  /** Of the files of one commit, before they are checked out. */
  readonly checkoutBytes: number
  readonly checkoutFiles: number
}

export interface Options {
  /** It belongs to this process alone: locks are in memory. */
  readonly directory: string
  /** Commits of history to fetch; `null`: all. */
  readonly depth: number | null
  readonly limits: Limits
  /** Mirrors that nobody borrows from are removed when nobody has asked for them in this time; `null`: only to make room. */
  readonly keepUnused: Duration.Duration | null
  /** Folders with objects that repositories outside borrow. */
  readonly borrowed: Effect.Effect<ReadonlySet<string>>
}

const Known = Schema.Struct({
  /** The commit itself, when what was asked for is a tag of it. */
  commit: Schema.String,
  /** Of its tree, as it is checked out. */
  bytes: Counter,
  files: Counter,
  /** The commits of its history whose parents were not fetched. */
  shallow: Schema.Array(Schema.String)
})
type Known = typeof Known.Type
const KnownFile = Schema.fromJsonString(Known)

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

/** Every pack is looked into for every object. As `gc.autoPackLimit` of git. */
const MAX_PACKS = 50
/** How often the size of a running download is looked at. */
const LOOK_INTERVAL = "250 millis"
/** A size, at most 20 digits, and the end of the line. */
const MAX_LINE_BYTES = 21

export const make = Effect.fnUntraced(function*({ borrowed, depth, directory, keepUnused, limits }: Options) {
  const locked = yield* KeyedLock.make
  const tooMuch = yield* limitPassed
  const [incoming, removed] = [join(directory, "incoming"), join(directory, "removed")]
  /** Downloads of this process. */
  const landing = new Set<string>()
  /** How many are at work on a mirror without having borrowed from it yet. */
  const users = new Map<string, number>()

  const use = (mirror: string) =>
    Effect.acquireRelease(
      Effect.sync(() => users.set(mirror, (users.get(mirror) ?? 0) + 1)),
      () =>
        Effect.sync(() => {
          const others = (users.get(mirror) ?? 0) - 1
          if (others > 0) users.set(mirror, others)
          else users.delete(mirror)
        })
    )

  const landingSite = Effect.acquireRelease(
    Effect.sync(() => {
      const name = randomUUID()
      landing.add(name)
      return name
    }),
    (name) => Effect.promise(() => clear(join(incoming, name)).finally(() => landing.delete(name)))
  ).pipe(Effect.map((name) => join(incoming, name)))

  /** All of `sha` that the mirror lacks. Under the lock of the mirror. */
  const download = Effect.fnUntraced(function*(mirror: string, sha: string, isCommit: boolean, via: Transport) {
    const site = yield* landingSite
    yield* Effect.promise(async () => {
      await layOutMirror(mirror)
      await layOut(site, { head: "ref: refs/heads/none", objects: join(mirror, "objects"), shallow: await readShallow(mirror) })
    })
    const env = { GIT_DIR: site }
    const packs = join(site, "objects", "pack")
    const tooLarge = tooMuch(`Fetching it takes more than ${bytesText(limits.fetchBytes)}`, "maximumFetchBytes")
    const watch = Effect.sleep(LOOK_INTERVAL).pipe(
      Effect.andThen(sizeOf(packs)),
      Effect.filterOrFail((size) => size <= limits.fetchBytes, () => tooLarge),
      Effect.forever
    )
    yield* git([
      "fetch",
      "--quiet",
      "--no-write-fetch-head",
      "--no-tags",
      "--no-auto-maintenance",
      ...depth === null ? [] : [`--depth=${depth}`],
      ...via.fetchArguments,
      "--end-of-options",
      via.url,
      `${sha}:refs/commits/${sha}`
    ], { ...via.options, env, timeout: limits.fetchTime }).pipe(
      Effect.catchIf(
        (failure) => failure.reason === "timeout",
        () => Effect.fail(tooMuch(`It could not be fetched within ${Duration.toMinutes(limits.fetchTime)} minutes`, "fetchTime"))
      ),
      Effect.raceFirst(watch)
    )
    if ((yield* sizeOf(packs)) > limits.fetchBytes) return yield* Effect.fail(tooLarge)

    // What an id names may be a tag of its own, a folder or a file.
    const commit = isCommit ? sha : yield* git(["rev-parse", "--verify", "--quiet", `${sha}^{commit}`], { env }).pipe(
      Effect.map(line),
      Effect.catchTag("GitFailed", () => Effect.fail({ detail: `"${sha}" is no commit.`, retryable: false }))
    )
    const measured = yield* measure(site, commit, limits.checkoutFiles)
    if (measured === undefined) return yield* Effect.fail(tooManyFiles)
    const { bytes, files } = measured
    const shallow = yield* Effect.promise(() => readShallow(site))
    const roots = shallow.length === 0 ? [] : line(yield* git(["rev-list", "--max-parents=0", commit], { env })).split("\n")
    const known: Known = { commit, bytes, files, shallow: shallow.filter((id) => roots.includes(id)) }
    const excess = excessOf(known)
    if (excess !== undefined) return yield* Effect.fail(excess)

    const content = yield* Effect.orDie(Schema.encodeEffect(KnownFile)(known))
    yield* Effect.uninterruptible(Effect.promise(async () => {
      await movePacks(packs, join(mirror, "objects", "pack"))
      if (shallow.length > 0) await replaceFile(join(mirror, "shallow"), `${shallow.join("\n")}\n`, site)
      await replaceFile(join(mirror, "refs", "commits", sha), `${sha}\n`, site)
      await replaceFile(knownFile(mirror, sha), content, site)
    }))
    return known
  }, Effect.scoped)

  const tooManyFiles = tooMuch(`The commit has more than ${limits.checkoutFiles} files`, "maximumCheckoutFiles")
  const excessOf = ({ bytes, files }: Known): Explanation | undefined =>
    files > limits.checkoutFiles ?
      tooManyFiles
      : bytes > limits.checkoutBytes
      ? tooMuch(`The files of the commit have more than ${bytesText(limits.checkoutBytes)} together`, "maximumCheckoutBytes")
      : undefined

  /** The commit is there until the scope closes, and after that as long as it is borrowed. */
  const fetch = Effect.fn("Mirrors.fetch")(function*(repo: RepoName, remote: Remote, ref: string | undefined, defaultBranch: string) {
    const refuse = (explanation: Explanation) => new CloneFailed({ repo, ...explanation })
    const failed = (failure: GitFailed | Explanation) =>
      "detail" in failure ? refuse(failure) : DiskTrouble.of(failure) !== undefined ? Effect.die(failure) : Effect.andThen(
        Effect.logWarning("git could not read a repository", { repo, failure: failure.message }),
        refuse(explain(failure))
      )

    const via = transport(remote)
    if (via === undefined) return yield* refuse(unsupported)
    const name = ref ?? defaultBranch
    if (!isRefName(name)) return yield* refuse({ detail: "The branch, tag or commit has no valid name.", retryable: false })

    const wanted = isCommitId(name) && ref !== undefined
      ? { sha: name.toLowerCase(), branch: null }
      : yield* Effect.catch(resolve(via, name), failed)
    if (wanted === "empty") return yield* refuse({ detail: "The repository is empty: it has no commit to start from.", retryable: false })
    if (wanted === "missing") {
      return yield* refuse({
        detail: ref === undefined ? `It has no default branch "${name}".` : `It has no branch or tag "${name}".`,
        retryable: false
      })
    }

    const mirror = join(directory, mirrorName(repo, remote, depth))
    yield* use(mirror)
    const { sha } = wanted
    // A tree whose commit is here does not wait for the download of another one.
    const here = yield* readKnown(mirror, sha)
    const known = Option.isSome(here) ? here.value : yield* readKnown(mirror, sha).pipe(
      Effect.flatMap((now) => Option.isSome(now) ? Effect.succeed(now.value) : download(mirror, sha, wanted.branch !== null, via)),
      locked(mirror),
      Effect.catch(failed)
    )
    // The limits may be others than those it was fetched under.
    const excess = excessOf(known)
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
  const findRef = Effect.fn("Mirrors.findRef")(function*(repo: RepoName, remote: Remote, sha: string, refs: ReadonlyArray<string>) {
    const via = transport(remote)
    if (via === undefined) return yield* new CloneFailed({ repo, ...unsupported })
    const site = yield* landingSite
    const watch = Effect.sleep(LOOK_INTERVAL).pipe(
      Effect.andThen(sizeOf(join(site, "objects", "pack"))),
      Effect.filterOrFail(
        (size) => size <= limits.fetchBytes,
        () => new CloneFailed({ repo, ...tooMuch(`Its history takes more than ${bytesText(limits.fetchBytes)}`, "maximumFetchBytes") })
      ),
      Effect.forever
    )
    return yield* Ancestry.find(via, sha, refs, site).pipe(
      Effect.catchTag("GitFailed", (failure) =>
        DiskTrouble.of(failure) !== undefined ? Effect.die(failure) : Effect.andThen(
          Effect.logWarning("git could not read the history of a repository", { repo, failure: failure.message }),
          new CloneFailed({ repo, ...explain(failure) })
        )),
      Effect.raceFirst(watch)
    )
  }, Effect.scoped)

  /** Packs of many fetches become few. Not under the lock: it adds packs that are whole, and takes away only what they hold. */
  const consolidate = Effect.fnUntraced(function*(mirror: string) {
    const packs = join(mirror, "objects", "pack")
    yield* locked(mirror)(Effect.promise(() => clearLeftovers(packs)))
    if ((yield* Effect.promise(() => namesIn(packs))).filter((name) => name.endsWith(".idx")).length <= MAX_PACKS) return
    yield* Effect.promise(() => Promise.all(["packed-refs.lock", "packed-refs.new"].map((name) => rm(join(mirror, name), { force: true }))))
      .pipe(
        Effect.andThen(git(["pack-refs", "--all"], { env: { GIT_DIR: mirror } })),
        locked(mirror)
      )
    // Of all ways to repack this one drops no object, reachable or not, and need not write large packs again for each small one.
    yield* git(["repack", "--geometric=2", "-d", "-n", "--quiet"], {
      env: { GIT_DIR: mirror },
      timeout: "1 hour",
      // It has time; boots have not.
      config: ["pack.threads=1", "pack.windowMemory=256m"]
    })
  })

  /** Moves it out if nobody needs it and nobody has asked for it since `oldest`. */
  const retire = Effect.fnUntraced(function*(mirror: string, oldest: number, lenders: Effect.Effect<ReadonlySet<string>>) {
    const isUnused = () => !users.has(mirror) && statSync(mirror).mtimeMs < oldest
    if (!isUnused() || (yield* lenders).has(join(mirror, "objects"))) return
    const isOut = yield* Effect.sync(() => {
      // In one go, so that nobody begins to use it meanwhile. Whoever borrowed since we looked has made it younger.
      if (!isUnused()) return false
      renameSync(mirror, join(removed, randomUUID()))
      return true
    })
    if (isOut) yield* Effect.logInfo("removed a mirror that nobody uses", { mirror: basename(mirror) })
  })

  const each = Effect.fnUntraced(function*<E>(work: (mirror: string) => Effect.Effect<void, E>) {
    const names = yield* Effect.promise(() => readdir(directory))
    yield* Effect.forEach(
      names.filter((name) => name.endsWith(".git")),
      (name) =>
        Effect.catchCause(
          work(join(directory, name)),
          (cause) => Effect.logWarning("a mirror could not be put in order", { mirror: name }, cause)
        ),
      {
        discard: true
      }
    )
  })

  /** Removes mirrors that nobody borrows from and that nobody has asked for since `oldest`, and what is left of downloads. */
  const removeUnused = Effect.fnUntraced(function*(oldest: number | null) {
    yield* Effect.promise(async () => {
      await mkdir(removed, { recursive: true })
      await Promise.all((await namesIn(incoming)).filter((name) => !landing.has(name)).map((name) => clear(join(incoming, name))))
    })
    const lenders = yield* Effect.cached(borrowed)
    if (oldest !== null) yield* each((mirror) => retire(mirror, oldest, lenders))
    // The folder itself stays: on a full disk there would be no other.
    const out = yield* Effect.promise(() => namesIn(removed))
    yield* Effect.forEach(out, (name) => deleteTree(join(removed, name)), { discard: true })
  })

  /** Removes what nobody needs any more and brings what is spread over many packs together. Boots go on meanwhile. */
  const maintain = Effect.gen(function*() {
    yield* removeUnused(keepUnused === null ? null : (yield* Clock.currentTimeMillis) - Duration.toMillis(keepUnused))
    // What takes time comes last.
    yield* each(consolidate)
  }).pipe(Effect.withSpan("Mirrors.maintain"))

  /** Removes all mirrors that nobody borrows from, whatever their age: they can be fetched again. */
  const makeRoom = Effect.flatMap(Clock.currentTimeMillis, removeUnused).pipe(Effect.withSpan("Mirrors.makeRoom"))

  return { fetch, findRef, maintain, makeRoom }
})

/**
 * What the files of a commit come to; `undefined`: more than `mostFiles`. No more is read than is needed to say that they are too
 * many: a few trees can hold billions.
 */
export const measure = (gitDir: string, commit: string, mostFiles: number, options: GitOptions = {}) =>
  git(["ls-tree", "-r", "--format=%(objectsize)", commit], {
    ...options,
    env: { ...options.env, GIT_DIR: gitDir },
    maximumBytes: (mostFiles + 1) * MAX_LINE_BYTES
  }).pipe(
    Effect.map((output) => {
      const sizes = output.toString().split("\n").slice(0, -1)
      // A submodule has "-".
      return { files: sizes.length, bytes: sizes.reduce((sum, size) => sum + (Number(size) || 0), 0) }
    }),
    Effect.catchIf((failure) => failure.reason === "output", () => Effect.undefined)
  )

/** A readable name, and a digest because the URL decides which objects may be seen. */
const mirrorName = (repo: RepoName, remote: Remote, depth: number | null): string => {
  const digest = createHash("sha256").update(remote.url).digest("hex").slice(0, 16)
  return `${repo.toLowerCase().replace("/", "+").slice(0, 100)}-${digest}${depth === null ? "" : `-depth-${depth}`}.git`
}

const MiB = 2 ** 20
const bytesText = (bytes: number): string => bytes % MiB === 0 ? `${bytes / MiB} MiB` : `${bytes} bytes`

/** Passing it takes the operator, not another try. */
export const limitPassed = Effect.map(OptionNames, (nameOf) => (problem: string, option: OptionName): Explanation => ({
  detail: `${problem}. This limit is raised with ${nameOf(option)}.`,
  retryable: false
}))

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

const knownFile = (mirror: string, sha: string): string => join(mirror, "commits", sha)

/** `None`: it is not there, or not all of it. */
const readKnown = (mirror: string, sha: string): Effect.Effect<Option.Option<Known>> =>
  Effect.promise(() => textIn(knownFile(mirror, sha), "")).pipe(Effect.map(Schema.decodeOption(KnownFile)))

const readShallow = async (gitDir: string): Promise<ReadonlyArray<string>> =>
  (await textIn(join(gitDir, "shallow"), "")).split("\n").filter((id) => id !== "")

/** As far as it is not there, or a power failure left it empty. */
const layOutMirror = async (mirror: string): Promise<void> => {
  await Promise.all(["commits", "objects/pack", "refs/commits"].map((folder) => mkdir(join(mirror, folder), { recursive: true })))
  const files = { HEAD: "ref: refs/heads/none\n", config: "[core]\n\trepositoryformatversion = 0\n\tbare = true\n" }
  await Promise.all(
    Object.entries(files).map(async ([name, content]) => {
      const path = join(mirror, name)
      if (await textIn(path, undefined) !== content) await replaceFile(path, content)
    })
  )
}

/** The orphan of a killed worker may still write to it: then once more. */
const clear = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 })

/** Bytes of the files of a folder. */
const sizeOf = (folder: string): Effect.Effect<number> =>
  Effect.promise(async () => {
    const names = await namesIn(folder)
    const sizes = await Promise.all(names.map((name) => lstat(join(folder, name)).then(({ size }) => size, ifAbsent(0))))
    return sizes.reduce((sum, size) => sum + size, 0)
  })

const packOf = (name: string): string | undefined => /^(pack-[0-9a-f]+)\.\w+$/u.exec(name)?.[1]

const movePacks = async (from: string, to: string): Promise<void> => {
  const names = (await namesIn(from)).filter((name) => packOf(name) !== undefined)
  // With its index a pack is there for everybody: it comes last.
  const isIndex = (name: string) => name.endsWith(".idx")
  for (const name of [...names.filter((name) => !isIndex(name)), ...names.filter(isIndex)]) await rename(join(from, name), join(to, name))
}

/** Parts of packs that a killed process began to write, to move or to remove. We hold the lock, and do not repack. */
const clearLeftovers = async (packs: string): Promise<void> => {
  const names = await namesIn(packs)
  const isLeft = (name: string) => {
    const pack = packOf(name)
    return pack === undefined ? /^\.?tmp[-_]/u.test(name) : !names.includes(`${pack}.idx`) || !names.includes(`${pack}.pack`)
  }
  await Promise.all(names.filter(isLeft).map((name) => rm(join(packs, name), { force: true })))
}
