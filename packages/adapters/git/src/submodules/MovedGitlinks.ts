/** Gitlinks of which an agent chose another commit. They are published only if that commit exists where the submodule comes from. */
import { type CloneFailed, type FindSubmodule, PushFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { absoluteAddress } from "@slipway/domain/source/schema/SubmoduleAddress"
import { Effect, type Scope } from "effect"
import { line, terminated } from "../Git.ts"
import type { FetchedCommit } from "../mirror/FetchCommit.ts"
import { type HostRepository, run, scratch } from "../tree/HostRepository.ts"
import * as Gitlinks from "./Gitlinks.ts"

/** Gitlinks of one publication that are looked up. */
const MOST = 32

/** A submodule at another commit than in the commit that the tree started from. */
export interface Moved {
  readonly path: Buffer
  readonly from: string
  readonly to: string
}

/** Where commits are looked up. */
export interface Sources {
  readonly fetch: (repo: RepoName, remote: Remote, sha: string) => Effect.Effect<FetchedCommit, CloneFailed, Scope.Scope>
  readonly find: FindSubmodule | undefined
  /** The repository of the tree, against which relative addresses are resolved; absent: no commit is found. */
  readonly remote: Remote | undefined
}

/** Those whose commits exist nowhere. `commit`: the one with their addresses. `ask` sees it. Fails where a source cannot tell now. */
export const lost = Effect.fn("MovedGitlinks.lost")(function*<A extends Pick<Moved, "path" | "to">>(
  repository: Pick<HostRepository, "gitDir" | "repo">,
  commit: string,
  moved: ReadonlyArray<A>,
  { fetch, find, remote }: Sources,
  ask: typeof run = run
) {
  if (moved.length === 0) return []
  if (find === undefined || remote === undefined) return moved
  const addresses = yield* Gitlinks.addressesIn(repository, commit, ask)
  const isThere = Effect.fnUntraced(function*({ path, to }: A) {
    const named = addresses.get(path.toString("latin1"))
    const address = named === undefined ? null : absoluteAddress(remote.url, named)
    const found = address === null ? "" : yield* find(address)
    if (typeof found === "string") return false
    return yield* fetch(found.repo, found.remote, to).pipe(
      Effect.map(({ sha }) => sha === to),
      Effect.catchTag("CloneFailed", ({ detail, retryable }) =>
        retryable
          ? Effect.fail(
            new PushFailed({ repo: repository.repo, detail: `The commit of a submodule cannot be looked up. ${detail}`, retryable })
          )
          : Effect.succeed(false))
    )
  }, Effect.scoped)
  const gone: Array<A> = []
  for (const [i, one] of moved.entries()) if (i >= MOST || !(yield* isThere(one))) gone.push(one)
  return gone
})

/** The tree with these gitlinks as they were. */
export const reset = Effect.fnUntraced(function*(repository: HostRepository, tree: string, moved: ReadonlyArray<Moved>) {
  const env = { GIT_INDEX_FILE: yield* scratch(repository) }
  const input = terminated(moved.map(({ from, path }) => Buffer.concat([Buffer.from(`160000 ${from}\t`), path])))
  yield* run(repository, ["read-tree", tree], { env })
  yield* run(repository, ["update-index", "-z", "--index-info"], { env, input })
  return line(yield* run(repository, ["write-tree"], { env }))
}, Effect.scoped)
