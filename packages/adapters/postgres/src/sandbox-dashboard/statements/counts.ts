/** Small reads of a grant's sandboxes. Each has a bound on the rows it looks at. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { ToolApprovalMode } from "@slipway/domain/models/schema/ToolApprovalMode"
import { GROUPS, LOOKED_THROUGH, PLACES, RECENT } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { GONE_SECONDS } from "@slipway/domain/sandbox/ports/Workers"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { SandboxStatus, StatusReason } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { PullState } from "@slipway/domain/source/schema/PullRequest"
import { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { SEARCHED_CHARACTERS } from "@slipway/domain/text/SearchText"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { textArray } from "../../sql/TextArray.ts"
import { ATTENTION, PULLS } from "../rules/DashboardRules.ts"

const AskedRow = Schema.Struct({
  createdBy: Schema.String,
  createdAt: Instant,
  repos: Schema.Array(RepoRef),
  /** The repository whose branch is continued. */
  continued: Schema.NullOr(Schema.String),
  model: Schema.String,
  reasoningEffort: Schema.NullOr(ReasoningEffort),
  toolApprovalMode: ToolApprovalMode,
  started: Schema.Boolean
})

const PastRow = Schema.Struct({
  day: Schema.String,
  repo: Schema.String,
  model: Schema.String,
  createdBy: Schema.String,
  status: SandboxStatus,
  reason: Schema.NullOr(StatusReason),
  count: Int8,
  costMicroUsd: Int8,
  input: Int8,
  cachedInput: Int8,
  output: Int8,
  pulls: Int8,
  merged: Int8,
  mergedAfterMs: Int8,
  timedMerges: Int8
})

const QueueRow = Schema.Struct({ id: Schema.NullOr(SandboxId), place: Int8, atWork: Int8, slots: Int8 })

/** Sandboxes of a grant by state, over the newest ones. */
export const countRows = (sql: SqlClient.SqlClient) => {
  const state = sql.literal(Object.entries(ATTENTION).map(([state, test]) => `WHEN ${test} THEN '${state}'`).join(" "))
  return SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ state: AttentionState, count: Int8 }),
    execute: (grantId) =>
      sql`
        SELECT CASE ${state} END AS state, count(*) AS count FROM (
          SELECT status, approvals, publications, restoring, turn FROM sandboxes
          WHERE grant_id = ${grantId} AND deleted_at IS NULL AND archived_at IS NULL
          ORDER BY created_at DESC, id DESC LIMIT ${LOOKED_THROUGH}
        ) s GROUP BY 1`
  })
}

/** Pull requests of the newest sandboxes of a grant by state. */
export const pullCountRows = (sql: SqlClient.SqlClient) => {
  const state = sql.literal(PullState.literals.map((state) => `WHEN ${PULLS[state]} THEN '${state}'`).join(" "))
  return SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ state: PullState, count: Int8 }),
    execute: (grantId) =>
      sql`
        SELECT CASE ${state} END AS state, count(*) AS count FROM (
          SELECT publications FROM sandboxes
          WHERE grant_id = ${grantId} AND deleted_at IS NULL AND archived_at IS NULL
          ORDER BY created_at DESC, id DESC LIMIT ${LOOKED_THROUGH}
        ) s, jsonb_array_elements(s.publications) p WHERE ${sql.literal(PULLS.any)} GROUP BY 1`
  })
}

/** The newest sandboxes of a grant, by the index over grant, time and id. */
export const recentRows = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: AskedRow,
    execute: (grantId) =>
      reads`
        SELECT created_by AS "createdBy", created_at AS "createdAt", repos, continues ->> 'repo' AS continued, model,
          reasoning_effort AS "reasoningEffort", tool_approval_mode AS "toolApprovalMode", started_at IS NOT NULL AS started
        FROM sandboxes WHERE grant_id = ${grantId} AND deleted_at IS NULL ORDER BY created_at DESC, id DESC LIMIT ${RECENT}`
  })

/** Places of the grant's sandboxes in the queue, and slots. At least one row, for the counts. Partial indexes over work and leases. */
export const queueRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: QueueRow,
    execute: (grantId) =>
      sql`
        WITH waiting AS (
          SELECT id, grant_id, row_number() OVER (ORDER BY work_since, created_at, id) AS place
          FROM sandboxes WHERE work = 'boot' AND (lease_until IS NULL OR lease_until <= now())
          ORDER BY work_since, created_at, id LIMIT ${PLACES}
        ), counts AS (
          SELECT (
              SELECT count(*) FROM sandboxes
              WHERE work IN ('boot', 'turn') AND lease_until > now() AND turn ->> 'state' IS DISTINCT FROM 'awaiting_approval'
            ) AS "atWork", (
              SELECT coalesce(sum(slots), 0) FROM worker_rooms
              WHERE NOT draining AND seen_at > now() - make_interval(secs => ${GONE_SECONDS})
            ) AS slots
        )
        SELECT w.id, coalesce(w.place, 0) AS place, c."atWork", c.slots
        FROM counts c LEFT JOIN waiting w ON w.grant_id = ${grantId}`
  })

/** The sum of a counter in a JSON column; saturates. */
const sumOf = (sql: SqlClient.SqlClient) => (column: "tokens" | "usage", counter: string) =>
  sql.literal(`least(sum((${column} ->> '${counter}')::bigint), ${Number.MAX_SAFE_INTEGER})::bigint`)

/** Sums by day, repository, model, person and status, over the newest sandboxes of a grant. */
export const pastRows = (sql: SqlClient.SqlClient) => {
  const total = sumOf(sql)
  return SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, since: Schema.String }),
    Result: PastRow,
    execute: ({ grantId, since }) =>
      sql`
        SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, coalesce(repo_names[1], '') AS repo, model,
          created_by AS "createdBy", status, reason, count(*) AS count, ${total("usage", "costMicroUsd")} AS "costMicroUsd",
          ${total("tokens", "input")} AS input, ${total("tokens", "cachedInput")} AS "cachedInput",
          ${total("tokens", "output")} AS output,
          sum(p.pulls)::bigint AS pulls, sum(p.merged)::bigint AS merged, sum(p."timedMerges")::bigint AS "timedMerges",
          least(sum(p."mergedAfterMs"), ${Number.MAX_SAFE_INTEGER})::bigint AS "mergedAfterMs"
        FROM (
          SELECT created_at, created_by, repo_names, model, status, reason, usage, tokens, publications FROM sandboxes
          WHERE grant_id = ${grantId} AND created_at >= ${since}::timestamptz AND deleted_at IS NULL
          ORDER BY created_at DESC, id DESC LIMIT ${LOOKED_THROUGH}
        ) newest, LATERAL (
          SELECT count(*) FILTER (WHERE one ->> 'number' IS NOT NULL) AS pulls,
            count(*) FILTER (WHERE (one ->> 'merged')::boolean) AS merged, count(one ->> 'mergedAt') AS "timedMerges",
            coalesce(sum(round(1000 * extract(epoch FROM (one ->> 'mergedAt')::timestamptz - created_at))), 0) AS "mergedAfterMs"
          FROM jsonb_array_elements(publications) AS one
        ) p
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 8 DESC LIMIT ${GROUPS}`
  })
}

/** Counts of changes at the newest checkpoint of each sandbox. */
export const changesRows = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Array(SandboxId),
    Result: Schema.Struct({ id: SandboxId, changes: Schema.Array(ChangeCounts) }),
    execute: (ids) =>
      reads`
        SELECT s.id, c.changes FROM sandboxes s
        JOIN checkpoints k ON k.sandbox_id = s.id AND k.checkpoint = s.checkpoint
        JOIN checkpoint_contents c ON c.id = k.content
        WHERE s.id = ANY(${textArray(ids)}::text[]) AND s.deleted_at IS NULL AND c.changes IS NOT NULL`
  })

/** The newest text of each sandbox that the words of a search find. */
export const saidRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, ids: Schema.Array(SandboxId), search: Schema.String }),
    Result: Schema.Struct({ id: SandboxId, text: Schema.String }),
    execute: ({ grantId, ids, search }) =>
      sql`
        SELECT s.id, left(coalesce(m.text, s.prompt), ${SEARCHED_CHARACTERS}) AS text FROM sandboxes s
        CROSS JOIN LATERAL (
          SELECT t.seq FROM search_texts t
          WHERE t.sandbox_id = s.id AND t.words @@ search_query(${grantId}::uuid, ${search}) ORDER BY t.seq DESC LIMIT 1
        ) hit
        LEFT JOIN messages m ON m.sandbox_id = s.id AND m.seq = hit.seq
        WHERE s.id = ANY(${textArray(ids)}::text[]) AND s.grant_id = ${grantId}`
  })
