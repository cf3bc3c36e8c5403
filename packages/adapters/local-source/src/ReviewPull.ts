/** Adds reviews to pull requests of repositories on this machine. */
import type { NewReview } from "@slipway/domain/source/ports/PullRequests"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { Effect } from "effect"
import { find, type Pulls, refuse } from "./FindPulls.ts"
import { addReview } from "./PullComments.ts"

export const review = Effect.fn("LocalPullRequests.review")(function*(pulls: Pulls, repo: RepoName, number: number, review: NewReview) {
  const { pullRequest } = yield* find(pulls, repo, number)
  if (pullRequest.merged) return yield* refuse(repo, number)("merged", "it was merged, so no changes to it can be requested.")
  if (pullRequest.state === "closed") return yield* refuse(repo, number)("closed", "it was closed, so no changes to it can be requested.")
  yield* guard(addReview(pulls.sql, repo, number, review))
})
