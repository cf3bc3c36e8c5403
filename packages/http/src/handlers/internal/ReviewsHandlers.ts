/** Translates requests for comments and checks into domain calls. */
import { MAX_CHECKS, MAX_COMMENTS, MAX_NAME, type PullRequestReviews } from "@slipway/api/groups/ReviewsApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Publishing, type StatusWithComments } from "@slipway/domain/publishing/usecases/Publishing"
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import type { Checks, CommentWithText } from "@slipway/domain/source/schema/PullRequest"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { busy } from "../../server/reply/HostBusy.ts"

/** Whole characters only. */
const bounded = (text: string) => text.slice(0, MAX_NAME).replace(/[\ud800-\udbff]$/u, "")

const toComment = ({ author, createdAt, id, isOutdated = false, isWhole, line, path, text, updatedAt, url }: CommentWithText) => ({
  id,
  author: bounded(author),
  path: path === null ? null : bounded(path),
  line,
  outdated: isOutdated,
  text,
  truncated: !isWhole,
  url: bounded(url),
  createdAt: bounded(createdAt),
  updatedAt: bounded(updatedAt)
})

const toChecks = ({ checkRuns, label, runs, state }: Checks): PullRequestReviews["checks"] => {
  const all = checkRuns.length > 0 ? checkRuns : runs
  const data = all.slice(0, MAX_CHECKS).map(({ conclusion = null, name, status, url }) => ({
    name: bounded(name),
    status: bounded(status),
    conclusion: conclusion === null ? null : bounded(conclusion),
    url: bounded(url)
  }))
  return { state, label, data, count: all.length }
}

const toReviews = ({ comments, status: { checks, detailsPending, pullRequest, repository } }: StatusWithComments): PullRequestReviews => ({
  repository,
  pullRequest: pullRequest === null
    ? null
    : { number: pullRequest.number, url: pullRequest.url, title: bounded(pullRequest.title), state: pullStateOf(pullRequest) },
  comments: comments.slice(-MAX_COMMENTS).map(toComment),
  commentCount: comments.length,
  checks: toChecks(checks),
  detailsPending
})

export const layer = HttpApiBuilder.group(
  InternalApi,
  "reviews",
  Effect.fn(function*(handlers) {
    const publishing = yield* Publishing
    return handlers.handleAll({
      getPullRequestReviews: Effect.fnUntraced(function*({ params: { sandboxId }, query: { repo } }) {
        return toReviews(yield* publishing.statusWithComments(yield* CurrentPrincipal, sandboxId, repo))
      }, Effect.catchTag("SourceHostError", busy))
    })
  })
)
