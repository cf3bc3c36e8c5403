/** Closes a pull request without merging it. */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect } from "effect"
import { find, type Pulls, refuse } from "./FindPulls.ts"
import { deletable, deleteBranch, withGit } from "./PullBranches.ts"

export const close = Effect.fn("LocalPullRequests.close")(function*(
  pulls: Pulls,
  repo: RepoName,
  number: number,
  options: { readonly deleteBranch: boolean }
) {
  const found = yield* find(pulls, repo, number)
  const { pullRequest, repository: { fullName } } = found
  if (pullRequest.merged) {
    return yield* refuse(fullName, number)("merged", "it was merged, which cannot be taken back by closing it.")
  }
  if (pullRequest.state === "closed") return { ...found, changed: false, branchDeleted: false }
  if (options.deleteBranch) yield* withGit(found, deletable(found))
  const at = DateTime.formatIso(yield* DateTime.now)
  yield* guard(pulls.sql`
    UPDATE local_pull_requests SET state = 'closed', updated_at = ${at} WHERE id = ${pullRequest.id} AND state = 'open'`)
  const branchDeleted = options.deleteBranch && (yield* deleteBranch(found))
  return { ...yield* find(pulls, repo, number), changed: true, branchDeleted }
})
