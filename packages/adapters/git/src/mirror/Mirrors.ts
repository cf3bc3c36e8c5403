/**
 * Bare copies of repositories from which all trees on this machine borrow their objects. Only the host reads and writes them. One per
 * remote URL, since a tree can read all that is in its mirror, and per depth of history:
 *
 *     <directory>/<repository>.git/objects          only grows: what was borrowed once stays
 *     <directory>/<repository>.git/objects/lfs/     contents of Git LFS (`LfsStore`)
 *     <directory>/<repository>.git/refs/commits/    what a fetch tells the remote that we have
 *     <directory>/<repository>.git/commits/<sha>    what is known of a commit; written when all of it is there
 *     <directory>/incoming/                         downloads under way
 *     <directory>/removed/                          mirrors on their way out
 *
 * A download lands in a repository of its own and is moved to the mirror when it is whole. An aborted download leaves neither locks nor
 * objects in a mirror, and an orphan of a killed worker may finish it safely.
 */
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import * as FetchCommit from "./FetchCommit.ts"
import { maintain, makeRoom } from "./MaintainMirrors.ts"
import { landingSite, open, type Options } from "./OpenMirrors.ts"

export type Mirrors = Effect.Success<ReturnType<typeof make>>

export const make = Effect.fnUntraced(function*(options: Options) {
  const mirrors = yield* open(options)
  return {
    fetch: (repo: RepoName, remote: Remote, ref: string | undefined, defaultBranch: string) =>
      FetchCommit.fetch(mirrors, repo, remote, ref, defaultBranch),
    findRef: (repo: RepoName, remote: Remote, sha: string, refs: ReadonlyArray<string>) =>
      FetchCommit.findRef(mirrors, repo, remote, sha, refs),
    /** A name for a folder on the disk of the mirrors, deleted with the scope. */
    landingSite: landingSite(mirrors),
    maintain: maintain(mirrors),
    makeRoom: makeRoom(mirrors)
  }
})
