/**
 * Where the branch of a publication is, and whether Slipway left it there. What was pushed is recorded in the store and remembered in
 * the repository of the tree. A worker that was lost after its push could record it nowhere that its successor sees: then the commits
 * themselves say whose they are.
 */
import { BranchMoved, type BranchQuery, type BranchesFound } from "@slipway/domain/files/ports/WorkingTrees"
import { Effect } from "effect"
import type { BoxGit } from "../tree/BoxGit.ts"
import type { HostRepository } from "../tree/HostRepository.ts"
import { run } from "../tree/HostRepository.ts"
import * as AgentCommits from "./AgentCommits.ts"
import * as CommitObject from "./CommitObject.ts"
import * as FetchedCommits from "./FetchedCommits.ts"
import * as Push from "./Push.ts"

/** Commits that are looked at, from the head of the branch down. */
const MAX_DEPTH = 100

export const find = Effect.fn("PublishedBranch.find")(
  function*(repository: HostRepository, box: BoxGit, query: BranchQuery, fetch: FetchedCommits.Fetch, maximumBytes: number) {
    const { author, branches, headRef, history, pushed, remote } = query
    const { baseSha, preparedAt } = repository
    const all = yield* Push.tipsOf(repository, remote, [headRef, ...branches])
    const head = all.get(headRef)
    const tips = new Map(Array.from(all).filter(([name]) => branches.includes(name)))
    if (head === undefined) {
      const last = pushed ?? (yield* Push.published(repository))
      const isGone = pushed !== null || last !== undefined && (yield* Push.isTried(repository, headRef, last))
      const gone: BranchesFound = { head: null, isGone, root: null, tips }
      return gone
    }
    yield* FetchedCommits.bring(repository, fetch, remote, [head])
    const by = CommitObject.signature({ author, at: Math.floor(preparedAt / 1_000) })
    /** Snapshots of this tree have its time, and only this service makes commits with it. */
    const isSnapshot = (sha: string) =>
      Effect.map(run(repository, ["cat-file", "commit", sha]), (bytes) => {
        const header = bytes.toString("latin1").split("\n\n", 1)[0]?.split("\n") ?? []
        const signed = Buffer.from(by).toString("latin1")
        return header.includes(`author ${signed}`) && header.includes(`committer ${signed}`)
      })
    const isOurs = Effect.fnUntraced(function*(sha: string) {
      return (yield* Push.isTried(repository, headRef, sha)) || (yield* isSnapshot(sha))
    })
    /** For commits in the agent's own repository: the host got them from this service alone. */
    const isAgents = Effect.gen(function*() {
      if (history === undefined) return false
      const own = yield* AgentCommits.take(repository, box, history(baseSha), maximumBytes, "saved")
      return own !== undefined && (yield* Push.goesOnFrom(repository, own, head)) && !(yield* Push.goesOnFrom(repository, baseSha, head))
    })
    if (head !== pushed) {
      const isKnown = (yield* isOurs(head)) || (yield* isAgents)
      if (!isKnown || pushed !== null && !(yield* Push.goesOnFrom(repository, head, pushed))) {
        return yield* new BranchMoved({ repo: repository.repo, branch: headRef })
      }
    }
    const found: BranchesFound = { head, isGone: false, root: pushed === null ? yield* rootOf(repository, head, isOurs) : null, tips }
    return found
  },
  (self, { repo }) => Effect.catchTag(self, "GitFailed", (failure) => Push.failed({ repo, gitDir: "" })(failure))
)

/** The newest commit below `head` that is not ours. */
const rootOf = Effect.fnUntraced(
  function*<E>(repository: HostRepository, head: string, isOurs: (sha: string) => Effect.Effect<boolean, E>) {
    const commits = yield* run(repository, ["rev-list", "--first-parent", `--max-count=${MAX_DEPTH}`, head, "--"])
    for (const sha of commits.toString().split("\n").filter((line) => line !== "")) if (!(yield* isOurs(sha))) return sha
    return null
  }
)
