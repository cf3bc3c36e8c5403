/** `FeedbackWatches` on Postgres. Triggers of `sandboxes` add the watches and make them due. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CLAIM_TIME, FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"

const Taken = Schema.Struct({ sandboxId: SandboxId, repo: RepoName, failures: Schema.Int, fence: Int8, noticed: Int8 })
const iso = DateTime.formatIso

export const layer = Layer.effect(
  FeedbackWatches,
  Effect.map(SqlClient.SqlClient, (sql) =>
    FeedbackWatches.of({
      noticed: Effect.fn("FeedbackWatches.noticed")(function*(repo, branch, at) {
        yield* sql`
          UPDATE feedback_watches SET look_at = least(look_at, ${iso(at)}::timestamptz), noticed = noticed + 1
          WHERE lower(repo) = lower(${repo}) AND (${branch}::text IS NULL OR branch = ${branch})`
      }, guard),
      take: Effect.fn("FeedbackWatches.take")((now, limit) =>
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: Taken,
          execute: () =>
            sql`
            UPDATE feedback_watches w SET fence = w.fence + 1, claimed_until = ${iso(DateTime.addDuration(now, CLAIM_TIME))}::timestamptz
            FROM (
              SELECT sandbox_id, repo FROM feedback_watches
              WHERE look_at <= ${iso(now)}::timestamptz AND (claimed_until IS NULL OR claimed_until <= ${iso(now)}::timestamptz)
              ORDER BY look_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) due
            WHERE w.sandbox_id = due.sandbox_id AND w.repo = due.repo
            RETURNING w.sandbox_id AS "sandboxId", w.repo, w.failures, w.fence, w.noticed`
        })(), guard),
      record: Effect.fn("FeedbackWatches.record")(function*({ fence, noticed, repo, sandboxId }, { failures, lookAt }) {
        const recorded = yield* sql`
          UPDATE feedback_watches SET failures = ${failures}, claimed_until = NULL,
            look_at = CASE WHEN noticed = ${noticed} THEN ${lookAt === null ? null : iso(lookAt)}::timestamptz ELSE look_at END
          WHERE sandbox_id = ${sandboxId} AND repo = ${repo} AND fence = ${fence}
          RETURNING 1`
        return recorded.length > 0
      }, guard)
    }))
)
