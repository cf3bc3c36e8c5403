/**
 * Makes a tree as it was saved, on a site of its own. Nothing of what was saved is believed: git names every object by its
 * bytes anew, what is missing is noticed before anything is checked out, and names and sizes have the limits of a checkout.
 */
import { CheckpointDamaged, CloneFailed, TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import { Effect } from "effect"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { type GitOptions, line } from "../Git.ts"
import { explained } from "../GitFailure.ts"
import { measure } from "../mirror/CheckoutSize.ts"
import * as Push from "../publish/Push.ts"
import { strange } from "../publish/Snapshot.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import * as ReceivedPack from "../tree/ReceivedPack.ts"
import type { TreePlace } from "../tree/TreePlace.ts"
import type { SavedTree } from "./TreesArchive.ts"

export interface Limits {
  readonly checkoutBytes: number
  readonly checkoutFiles: number
  /** Limits of the files of a tree that differ from the commit it started from. */
  readonly treeBytes: number
}

const TIMEOUT = "1 minute"

const LIMITED = { timeout: TIMEOUT, isLimited: true } as const

/** Takes the objects of the pack and looks at all that is said to be in them. `env`: where the objects are to be. */
const takeObjects = Effect.fnUntraced(function*(
  gitDir: string,
  tree: SavedTree,
  pack: string,
  limits: Limits,
  env: NonNullable<GitOptions["env"]> = {}
) {
  const { baseSha, head, published, sha } = tree
  const file = yield* Effect.acquireRelease(Effect.promise(() => open(pack)), (file) => Effect.promise(() => file.close()))
  const { size } = yield* Effect.promise(() => file.stat())
  const here = { gitDir }
  const ask = (asked: { readonly gitDir: string }, args: Parameters<typeof HostRepository.run>[1], options = {}) =>
    HostRepository.run(asked, args, { ...LIMITED, env, ...options })
  if (size > 0) {
    yield* ask(here, ["index-pack", ReceivedPack.STRICT, "--threads=1", "--stdin", "--fix-thin"], { inputFile: file.fd })
  }
  const commits = [...new Set([sha, head ?? baseSha, published ?? baseSha])]
  const kinds = line(yield* ask(here, ["cat-file", "--batch-check=%(objecttype)"], { input: commits.map((id) => `${id}\n`).join("") }))
  if (kinds.split("\n").some((kind) => kind !== "commit")) return yield* ReceivedPack.unsound("Commits are missing.")
  const measured = Effect.flatMap(
    measure(gitDir, sha, limits.checkoutFiles, { ...LIMITED, env }),
    (found) =>
      found === undefined || found.files > limits.checkoutFiles || found.bytes > limits.checkoutBytes
        ? ReceivedPack.unsound("The tree is larger than it may be.")
        : Effect.succeed(found)
  )
  // Each looks at all of it in its own way, and none changes anything. The first that refuses ends the others.
  const [, { bytes }, left] = yield* Effect.all([
    ask(here, ["rev-list", "--objects", "--quiet", ...commits, `^${baseSha}`, "--"]),
    measured,
    strange({ gitDir, baseSha }, `${sha}^{tree}`, limits.treeBytes, ask, { isKept: false, purpose: "saved" })
  ], { concurrency: "unbounded" })
  if (left.length > 0) return yield* ReceivedPack.unsound("Another repository is in it.")
  return bytes
}, Effect.scoped)

/** Refs of the agent's `.git`. None is a folder of another. */
const refsOf = ({ baseRef, baseSha, branch, head }: SavedTree): ReadonlyMap<string, string> => {
  const refs = new Map<string, string>()
  if (baseRef !== null) refs.set(`refs/remotes/origin/${baseRef}`, baseSha)
  if (branch !== null) refs.set(`refs/heads/${branch}`, head ?? baseSha)
  const isFree = baseRef !== branch &&
    (branch === null || !`${baseRef}/`.startsWith(`${branch}/`) && !`${branch}/`.startsWith(`${baseRef}/`))
  if (baseRef !== null && isFree) refs.set(`refs/heads/${baseRef}`, baseSha)
  return refs
}

const REFUSED = "Git refuses to take it."

/** Adds the saved objects of a tree in the empty folder `objects` beside its repository. The repository is complete without them. */
export const takeBeside = Effect.fn("Restoring.takeBeside")(
  function*({ gitDir }: HostRepository.HostRepository, tree: SavedTree, pack: string, objects: string, limits: Limits) {
    yield* takeObjects(gitDir, tree, pack, limits, {
      GIT_OBJECT_DIRECTORY: objects,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: join(gitDir, "objects")
    })
  },
  (self, { repo }) =>
    self.pipe(
      Effect.catchTag("Unsound", ({ reason }) => new CheckpointDamaged({ detail: reason })),
      Effect.catchTag(
        "GitFailed",
        explained("take the commits of a checkpoint", repo, ({ reason }) =>
          reason === "timeout"
            ? new TreesUnavailable({ detail: "The checkpoint could not be read in time.", retryable: true })
            : new CheckpointDamaged({ detail: REFUSED }))
      )
    )
)

/** The tree with both its repositories, on the site. Says how many bytes its files have. */
export const make = Effect.fn("Restoring.make")(
  function*(place: TreePlace, making: HostRepository.Making, tree: SavedTree, pack: string, limits: Limits) {
    const { baseSha, branch, head, sha } = tree
    const gitDir = HostRepository.madeIn(making)
    yield* HostRepository.layOutSite(making)
    const bytes = yield* takeObjects(gitDir, tree, pack, limits)
    yield* place.checkOut(making, {
      sha,
      committed: head ?? baseSha,
      head: branch === null ? head ?? baseSha : `ref: refs/heads/${branch}`,
      refs: refsOf(tree)
    })
    yield* Push.remember({ gitDir }, tree)
    return bytes
  },
  (self, _place, { repo }) =>
    self.pipe(
      Effect.catchTag("Unsound", ({ reason }) => new CheckpointDamaged({ detail: reason })),
      Effect.catchTag(
        "GitFailed",
        explained("restore a working tree", repo, ({ reason }) =>
          reason === "timeout"
            ? new CloneFailed({ repo, detail: "The tree could not be restored in time.", retryable: true })
            : new CheckpointDamaged({ detail: REFUSED }))
      )
    )
)
