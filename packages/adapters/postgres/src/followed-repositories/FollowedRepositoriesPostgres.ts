/** `FollowedRepositories` on Postgres: a row for each repository. */
import { CLAIM_TIME, FollowedRepositories } from "@slipway/domain/source/ports/FollowedRepositories"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"

const Claimed = Schema.Struct({
  repo: RepoName,
  cursor: Schema.NullOr(Schema.String),
  followedAt: Instant,
  heardAt: Schema.NullOr(Instant),
  failures: Schema.Int,
  fence: Int8
})
const Named = Schema.Struct({ repo: RepoName })

export const layer = Layer.effect(
  FollowedRepositories,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const time = (at: DateTime.Utc) => sql`${DateTime.formatIso(at)}::timestamptz`

    const claim = SqlSchema.findAll({
      Request: Schema.Struct({ now: Schema.DateTimeUtc, limit: Schema.Int }),
      Result: Claimed,
      execute: ({ limit, now }) => {
        const at = DateTime.makeUnsafe(now)
        // The number of the transaction is a fence that no earlier claim had, also of a row that was deleted since.
        return sql`
        WITH due AS (
          SELECT key FROM followed_repositories
          WHERE due_at <= ${time(at)} AND (claimed_until IS NULL OR claimed_until <= ${time(at)})
          ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
        ), claimed AS (
          UPDATE followed_repositories f
          SET fence = pg_current_xact_id()::text::bigint, claimed_until = ${time(DateTime.addDuration(at, CLAIM_TIME))}
          FROM due WHERE f.key = due.key
          RETURNING f.repo, f.cursor, f.followed_at, f.heard_at, f.failures, f.fence, f.due_at
        )
        SELECT repo, cursor, followed_at AS "followedAt", heard_at AS "heardAt", failures, fence FROM claimed ORDER BY due_at`
      }
    })
    const heard = SqlSchema.findAll({
      Request: Schema.Struct({ name: Schema.String, at: Schema.DateTimeUtc }),
      Result: Named,
      execute: ({ at, name }) =>
        sql`UPDATE followed_repositories SET heard_at = ${time(DateTime.makeUnsafe(at))} WHERE present_name = lower(${name}) RETURNING repo`
    })

    return FollowedRepositories.of({
      follow: Effect.fn("FollowedRepositories.follow")(function*(repo, reason, now) {
        yield* sql`
          INSERT INTO followed_repositories AS f (key, repo, present_name, reasons, followed_at, due_at)
          VALUES (lower(${repo}), ${repo}, lower(${repo}), ARRAY[${reason}::text], ${time(now)}, ${time(now)})
          ON CONFLICT (key) DO UPDATE SET reasons = f.reasons || excluded.reasons WHERE NOT f.reasons @> excluded.reasons`
      }, guard),
      unfollow: Effect.fn("FollowedRepositories.unfollow")(
        function*(repo, reason) {
          // A caller that follows it meanwhile waits for the commit, and then makes a new row.
          yield* sql`DELETE FROM followed_repositories WHERE key = lower(${repo}) AND reasons = ARRAY[${reason}::text]`
          yield* sql`
            UPDATE followed_repositories SET reasons = array_remove(reasons, ${reason}::text)
            WHERE key = lower(${repo}) AND ${reason}::text = ANY(reasons) AND cardinality(reasons) > 1`
        },
        sql.withTransaction,
        guard
      ),
      claim: Effect.fn("FollowedRepositories.claim")((now, limit) => guard(claim({ now, limit }))),
      record: Effect.fn("FollowedRepositories.record")(function*({ fence, repo }, { cursor, dueAt, failures, presentName }) {
        const recorded = yield* sql`
          UPDATE followed_repositories
          SET cursor = ${cursor}, failures = ${failures}, due_at = ${time(dueAt)}, present_name = lower(${presentName}),
            claimed_until = NULL
          WHERE key = lower(${repo}) AND fence = ${fence} AND claimed_until IS NOT NULL RETURNING 1`
        return recorded.length > 0
      }, guard),
      heard: Effect.fn("FollowedRepositories.heard")((name, at) =>
        Effect.map(guard(heard({ name, at })), (rows) => rows.map(({ repo }) => repo))
      ),
      renamed: Effect.fn("FollowedRepositories.renamed")(function*(from, to) {
        yield* sql`UPDATE followed_repositories SET present_name = lower(${to}) WHERE present_name = lower(${from})`
      }, guard)
    })
  })
)
