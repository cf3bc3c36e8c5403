/** Sandboxes whose time limit has passed. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { MAX_SETUP } from "@slipway/domain/sandbox/rules/TimeLimit"
import { Duration, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"

/**
 * As the rule `nextDeadline` says, by the limits of this process: a stored deadline was calculated by the limits of another process or of
 * an earlier day. Each branch is one limit, and those that may find many sandboxes at rest read an index (0055).
 */
const limitRows = (sql: SqlClient.SqlClient, limits: Limits) => {
  const lasting = (limit: Duration.Duration) => sql`make_interval(secs => ${Duration.toSeconds(limit)}::double precision)`
  const until = (limit: Duration.Duration) => sql`now() - ${lasting(limit)}`
  return sql`
      SELECT id, created_at + ${lasting(limits.lifetime)} AS at FROM sandboxes
      WHERE status IN ('queued', 'creating', 'running') AND created_at <= ${until(limits.lifetime)}
      UNION ALL
      SELECT id, created_at + ${lasting(limits.queue)} FROM sandboxes
      WHERE status = 'queued' AND created_at <= ${until(limits.queue)}
      UNION ALL
      SELECT id, status_at + ${lasting(limits.boot)} + least(${lasting(MAX_SETUP)}, make_interval(
          secs => (coalesce((setup_time ->> 'spentMs')::float8, 0) + coalesce((setup_time -> 'run' ->> 'limitMs')::float8, 0)) / 1000))
      FROM sandboxes WHERE status = 'creating' AND status_at <= ${until(limits.boot)}
      UNION ALL
      SELECT id, status_at + ${lasting(limits.release)} FROM sandboxes
      WHERE status = 'terminating' AND status_at <= ${until(limits.release)}
      UNION ALL
      SELECT id, coalesce(idle_since, status_at) + ${lasting(limits.idle)} FROM sandboxes
      WHERE status = 'running' AND work IS DISTINCT FROM 'turn' AND coalesce(idle_since, status_at) <= ${until(limits.idle)}
        AND NOT publications @@ '$[*].actionState == "publishing" || $[*].actionState == "updating"'
      UNION ALL
      SELECT id, least((turn ->> 'startedAt')::timestamptz + ${lasting(limits.turn)}, (
          SELECT min((a ->> 'expires_at')::timestamptz)
          FROM jsonb_array_elements(approvals || coalesce(turn -> 'questions', '[]')) a))
      FROM sandboxes WHERE work = 'turn'`
}

/** A page of them after a place, by the time of the limit. At least one row, for the time. */
export const dueRows = (sql: SqlClient.SqlClient, limits: Limits) => {
  const rows = limitRows(sql, limits)
  return SqlSchema.findNonEmpty({
    Request: Schema.Struct({ limit: Schema.Int, at: Schema.NullOr(Instant), id: Schema.NullOr(SandboxId) }),
    Result: Schema.Struct({ now: Instant, id: Schema.NullOr(SandboxId), at: Schema.NullOr(Instant) }),
    execute: ({ at, id, limit }) =>
      sql`
        SELECT now() AS now, due.id, due.at FROM (SELECT) one LEFT JOIN (
          SELECT id, min(at) AS at FROM (${rows}) limits WHERE at <= now() GROUP BY id
          HAVING ${id === null ? sql`true` : sql`(min(at), id) > (${at}::timestamptz, ${id})`}
          ORDER BY min(at), id LIMIT ${limit}
        ) due ON true ORDER BY due.at, due.id`
  })
}
