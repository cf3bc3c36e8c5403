/** `PullRequestFeedback` on repositories of this machine: comments are rows of ours, and there are no checks. */
import { MAX_FEEDBACK_TEXT, MAX_REPLY, PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { commentsOf, commentUrl, putReply, toItem } from "./PullComments.ts"

const stored = <A, E>(operation: string, self: Effect.Effect<A, E | StoreUnavailable>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | StoreUnavailable, StoreUnavailable> =>
      typeof error === "object" && error !== null && "_tag" in error && error._tag === "StoreUnavailable",
    () => Effect.fail(new SourceHostError({ operation, detail: "The database is not available just now.", retryable: true }))
  )

/** Needs `SourceHostLocal` and the database. */
export const layer = Layer.effect(
  PullRequestFeedback,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const host = yield* SourceHost
    return PullRequestFeedback.of({
      read: Effect.fn("PullRequestFeedback.read")(function*(repo, number, { checks, since }) {
        const { pullRequest: { headRef, headSha, state, url } } = yield* host.pullRequestDetails(repo, number)
        const isOpen = state === "open"
        const rows = isOpen ? yield* stored("read the comments", guard(commentsOf(sql, repo, number))) : []
        return {
          isOpen,
          url,
          headRef,
          items: rows.filter(({ updatedAt }) => DateTime.isGreaterThanOrEqualTo(updatedAt, since)).map((row) => {
            const item = toItem(url, row)
            return { ...item, body: item.body.slice(0, MAX_FEEDBACK_TEXT).toWellFormed() }
          }),
          checks: checks && isOpen ? { headSha, state: "none" as const, at: null, failing: [] } : null
        }
      }),
      reply: Effect.fn("PullRequestFeedback.reply")(function*(repo, number, key, text) {
        const { pullRequest: { url } } = yield* host.pullRequestDetails(repo, number)
        const reply = { key, text: text.slice(0, MAX_REPLY).toWellFormed(), at: yield* DateTime.now }
        const { id } = yield* stored("reply on the pull request", guard(putReply(sql, repo, number, reply)))
        return commentUrl(url, id)
      })
    })
  })
)
