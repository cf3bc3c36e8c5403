/**
 * Fills the folders of submodules in a tree that is not in its place yet, where the caller allows their repositories. Others stay empty,
 * with a reason. The host's repository of the tree has, of each that is filled, a repository of its own to compare its files with:
 *
 *     <repository>/modules/<SHA-256 of its path>
 *     <repository>/modules/paths                   their paths, each with a NUL
 */
import type { EmptySubmodule, FindSubmodule } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { absoluteAddress } from "@slipway/domain/source/schema/SubmoduleAddress"
import { textIn } from "@slipway/machine/node/IsThere"
import { Clock, Duration, Effect } from "effect"
import { createHash } from "node:crypto"
import { chmod, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { CheckoutLimits } from "../mirror/CheckoutSize.ts"
import type { Mirrors } from "../mirror/Mirrors.ts"
import { replaceFile } from "../RepositoryLayout.ts"
import { decodeName } from "../tree/Changes.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import type { TreePlace } from "../tree/TreePlace.ts"
import * as Gitlinks from "./Gitlinks.ts"

/** Submodules of one tree. */
const MOST = 32
/** Levels of submodules below the tree. */
const DEPTH = 4
/** Time for all of a tree: far below what a boot has. */
const WITHIN = Duration.minutes(4)
/** Characters of a path and of a reason in an event. */
const MAX_SHOWN = 500

/** Why a folder stays empty, for people. */
const REASONS = {
  unnamed: "The repository does not say where it is from: .gitmodules has no address for it.",
  address: "The source host has no such address.",
  depth: `It is more than ${DEPTH} levels deep.`,
  itself: "It is the repository that it is in.",
  late: `There was no time for it: submodules have ${Duration.toMinutes(WITHIN)} minutes together.`,
  machine: "Machines of their own do not get the files of submodules.",
  many: `More than ${MOST} submodules are not checked out.`,
  name: "Its path is not UTF-8.",
  size: "The files of the submodules are larger than a checkout may be.",
  unasked: "Submodules are not checked out here."
} as const

interface Means {
  readonly limits: CheckoutLimits
  readonly mirrors: Mirrors
  readonly place: TreePlace
}

/** A repository whose submodules are looked for. */
interface Level {
  /** Where git finds its objects. */
  readonly gitDir: string
  readonly sha: string
  /** Its folder in the tree, with a `/` at its end; the top is empty. */
  readonly prefix: string
  readonly remote: Remote
  /** The repositories around it, and itself. */
  readonly within: ReadonlyArray<RepoName>
}

/** The name of the folder with the host's repository of a submodule. */
const moduleOf = (path: string): string => createHash("sha256").update(path).digest("hex")

const shown = (text: string): string => Array.from(text.toWellFormed()).slice(0, MAX_SHOWN).join("")

/** The tree on its site borrows from the mirror too: so a box sees its objects, and the mirror stays. */
const lend = (gitDir: string, objects: string) =>
  Effect.promise(async () => {
    const file = join(gitDir, "objects", "info", "alternates")
    const lines = (await textIn(file, "")).split("\n").filter((line) => line !== "")
    if (lines.includes(objects)) return
    await replaceFile(file, `${[...lines, objects].join("\n")}\n`, join(gitDir, "scratch"))
    await chmod(file, 0o644)
  })

/**
 * Fills what it may, and says which folders stay empty. Mirrors stay until the scope closes. Never fails: a tree without its submodules
 * is a tree.
 */
export const checkOut = Effect.fn("CheckOutSubmodules.checkOut")(
  function*(trees: Means, making: HostRepository.Making, sha: string, remote: Remote, find: FindSubmodule | undefined) {
    const { limits, mirrors, place } = trees
    const gitDir = HostRepository.madeIn(making)
    const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(WITHIN)
    const empty: Array<EmptySubmodule> = []
    const made: Array<string> = []
    let [bytes, files] = [0, 0]

    /** The next level, or why there is none. */
    const fill = Effect.fnUntraced(function*(level: Level, link: Gitlinks.Gitlink, path: string, depth: number) {
      if (find === undefined) return REASONS.unasked
      if (place.checkOutModule === undefined) return REASONS.machine
      if (depth > DEPTH) return REASONS.depth
      if (made.length === MOST) return REASONS.many
      if (link.address === null) return REASONS.unnamed
      const address = absoluteAddress(level.remote.url, link.address)
      if (address === null) return REASONS.address
      const found = yield* find(address)
      if (typeof found === "string") return found
      if (level.within.some((repo) => sameRepo(repo, found.repo))) return REASONS.itself
      const commit = yield* mirrors.fetch(found.repo, found.remote, link.sha, link.sha)
      if (bytes + commit.bytes > limits.checkoutBytes || files + commit.files > limits.checkoutFiles) return REASONS.size
      yield* place.checkOutModule(making, { path, name: moduleOf(path), ...commit })
      yield* lend(gitDir, commit.objects)
      bytes += commit.bytes
      files += commit.files
      made.push(path)
      const next: Level = {
        gitDir: dirname(commit.objects),
        sha: commit.sha,
        prefix: `${path}/`,
        remote: found.remote,
        within: [...level.within, found.repo]
      }
      return next
    })

    const one = Effect.fnUntraced(function*(level: Level, link: Gitlinks.Gitlink, depth: number) {
      const name = decodeName(link.path)
      const path = `${level.prefix}${name ?? link.path.toString()}`
      const left = until - (yield* Clock.currentTimeMillis)
      const outcome = name === undefined ? REASONS.name : left <= 0 ? REASONS.late : yield* fill(level, link, path, depth).pipe(
        Effect.catchTags({
          CloneFailed: ({ detail }) => Effect.succeed(detail),
          TreesUnavailable: ({ detail }) => Effect.succeed(detail),
          GitFailed: ({ message }) =>
            Effect.as(
              Effect.logWarning("git could not check out a submodule", { repo: making.repo, failure: message }),
              "Git could not check it out."
            )
        }),
        Effect.timeoutOrElse({ duration: left, orElse: () => Effect.succeed(REASONS.late) })
      )
      if (typeof outcome !== "string") return outcome
      if (path.length <= MAX_SHOWN && empty.length < MOST) empty.push({ path, reason: shown(outcome) })
      return null
    })

    let levels: ReadonlyArray<Level> = [{ gitDir, sha, prefix: "", remote, within: [making.repo] }]
    for (let depth = 1; levels.length > 0; depth++) {
      const next: Array<Level> = []
      for (const level of levels) {
        // The caller knows that the top names some.
        const { hasModules } = level.prefix === "" ? { hasModules: true } : yield* Gitlinks.topOf(level, level.sha)
        const links = hasModules ? yield* Gitlinks.linksIn(level, level.sha) : []
        for (const link of links) {
          const filled = yield* one(level, link, depth)
          if (filled !== null) next.push(filled)
        }
      }
      levels = next
    }
    if (made.length > 0) {
      yield* Effect.promise(() => writeFile(join(gitDir, "modules", "paths"), made.map((path) => `${path}\0`).join("")))
    }
    return empty
  },
  (self, _trees, { repo }) =>
    Effect.catchTag(
      self,
      "GitFailed",
      (failure) => Effect.as(Effect.logWarning("git could not list submodules", { repo, failure: failure.message }), [])
    )
)
