/** `SandboxDashboard` on Postgres: reads over `sandboxes`, each one statement with a bound on the rows it looks at. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { ToolApprovalMode } from "@slipway/domain/models/schema/ToolApprovalMode"
import { SandboxDashboard, GROUPS, LOOKED_THROUGH, PLACES, RECENT } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { GONE_SECONDS } from "@slipway/domain/sandbox/ports/Workers"
import type { AttentionState } from "@slipway/domain/sandbox/rules/AttentionState"
import { SandboxStatus, StatusReason } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import type { PullState } from "@slipway/domain/source/schema/PullRequest"
import { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../Database.ts"
import { COLUMNS, sandboxOf } from "../sandbox-store/rows/SandboxRow.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

const AskedRow = Schema.Struct({
  createdBy: Schema.String,
  createdAt: Instant,
  repos: Schema.Array(RepoRef),
  model: Schema.String,
  reasoningEffort: Schema.NullOr(ReasoningEffort),
  toolApprovalMode: ToolApprovalMode,
  started: Schema.Boolean
})

const PastRow = Schema.Struct({
  day: Schema.String,
  repo: Schema.String,
  model: Schema.String,
  status: SandboxStatus,
  reason: Schema.NullOr(StatusReason),
  count: Int8,
  costMicroUsd: Int8,
  input: Int8,
  cachedInput: Int8,
  output: Int8
})

const QueueRow = Schema.Struct({ id: Schema.NullOr(SandboxId), place: Int8, atWork: Int8, slots: Int8 })

const anyPublication = (test: string) => `jsonb_path_exists(s.publications, '$[*] ? (${test})')`

/** As `attentionStateOf` says: `SandboxDashboardContract` holds the two together. */
const ATTENTION: Readonly<Record<AttentionState, string>> = (() => {
  const open = anyPublication(`@.state == "open"`)
  const closed = anyPublication(`@.state == "closed"`)
  const asks = "s.approvals <> '[]'"
  const works = `(coalesce(s.turn ->> 'state', '') IN ('pending', 'running', 'awaiting_approval') OR s.restoring IS NOT NULL
    OR ${anyPublication(`@.actionState == "publishing" || @.actionState == "updating"`)})`
  const failed = "coalesce(s.turn ->> 'state', '') = 'failed'"
  const ready = `(${open} OR coalesce(s.turn ->> 'state', '') = 'succeeded' AND NOT ${closed})`
  const runs = "s.status = 'running'"
  return {
    asking: `${runs} AND ${asks}`,
    working: `(s.status = 'creating' OR ${runs} AND NOT ${asks} AND ${works})`,
    failed: `(s.status = 'failed' OR ${runs} AND NOT ${asks} AND NOT ${works} AND ${failed})`,
    ready: `(s.status = 'succeeded' AND ${open} OR ${runs} AND NOT ${asks} AND NOT ${works} AND NOT ${failed} AND ${ready})`,
    resting: `${runs} AND NOT ${asks} AND NOT ${works} AND NOT ${failed} AND NOT ${ready}`,
    queued: "s.status = 'queued'",
    over: `(s.status IN ('terminating', 'terminated') OR s.status = 'succeeded' AND NOT ${open})`
  }
})()

/** Of a publication `p`, as `pullStateOf` says: `SandboxDashboardContract` holds the two together. */
const PULLS: Readonly<Record<PullState | "any", string>> = (() => {
  const known = "p ->> 'number' IS NOT NULL"
  const is = (name: string, value: string) => `coalesce(p ->> '${name}', '') = '${value}'`
  const going = `${known} AND NOT ${is("merged", "true")} AND NOT ${is("state", "closed")}`
  return {
    any: known,
    merged: `${known} AND ${is("merged", "true")}`,
    closed: `${known} AND NOT ${is("merged", "true")} AND ${is("state", "closed")}`,
    draft: `${going} AND ${is("draft", "true")}`,
    open: `${going} AND NOT ${is("draft", "true")}`
  }
})()

/** None of these has ended. */
const LIVE: ReadonlyArray<AttentionState> = ["asking", "queued", "working", "resting"]

export const layer = Layer.effect(
  SandboxDashboard,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const columns = sql.literal(COLUMNS)

    const recentRows = SqlSchema.findAll({
      Request: Schema.String,
      Result: AskedRow,
      execute: (grantId) =>
        reads`
        SELECT created_by AS "createdBy", created_at AS "createdAt", repos, model, reasoning_effort AS "reasoningEffort",
          tool_approval_mode AS "toolApprovalMode", started_at IS NOT NULL AS started
        FROM sandboxes WHERE grant_id = ${grantId} ORDER BY created_at DESC, id DESC LIMIT ${RECENT}`
    })

    /** At least one row, for the counts. */
    const queueRows = SqlSchema.findAll({
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
    const total = (column: "tokens" | "usage", counter: string) =>
      sql.literal(`least(sum((${column} ->> '${counter}')::bigint), ${Number.MAX_SAFE_INTEGER})::bigint`)

    const pastRows = SqlSchema.findAll({
      Request: Schema.Struct({ grantId: Schema.String, since: Schema.String }),
      Result: PastRow,
      execute: ({ grantId, since }) =>
        sql`
        SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, coalesce(repo_names[1], '') AS repo, model, status, reason,
          count(*) AS count, ${total("usage", "costMicroUsd")} AS "costMicroUsd", ${total("tokens", "input")} AS input,
          ${total("tokens", "cachedInput")} AS "cachedInput", ${total("tokens", "output")} AS output
        FROM (
          SELECT created_at, repo_names, model, status, reason, usage, tokens FROM sandboxes
          WHERE grant_id = ${grantId} AND created_at >= ${since}::timestamptz ORDER BY created_at DESC, id DESC LIMIT ${LOOKED_THROUGH}
        ) newest
        GROUP BY 1, 2, 3, 4, 5 ORDER BY 7 DESC LIMIT ${GROUPS}`
    })

    const changesRows = SqlSchema.findAll({
      Request: Schema.Array(SandboxId),
      Result: Schema.Struct({ id: SandboxId, changes: Schema.Array(ChangeCounts) }),
      execute: (ids) =>
        reads`
        SELECT s.id, c.changes FROM sandboxes s
        JOIN checkpoints k ON k.sandbox_id = s.id AND k.checkpoint = s.checkpoint
        JOIN checkpoint_contents c ON c.id = k.content
        WHERE s.id = ANY(${textArray(ids)}::text[]) AND c.changes IS NOT NULL`
    })

    return SandboxDashboard.of({
      changes: (ids) =>
        ids.length === 0
          ? Effect.succeed(new Map())
          : guard(Effect.map(changesRows(ids), (rows) => new Map(rows.map(({ changes, id }) => [id, changes])))),

      list: Effect.fn("SandboxDashboard.list")(function*(grantId, { after, limit, pull, repo, search, attention }) {
        const matches = [
          attention === null ? sql`true` : sql.literal(ATTENTION[attention]),
          repo === null ? sql`true` : sql`${repo.toLowerCase()} = ANY(s.repo_names)`,
          pull === undefined ? sql`true` : sql`EXISTS (
            SELECT FROM jsonb_array_elements(s.publications) p WHERE ${sql.literal(PULLS[pull])}
              AND (${repo}::text IS NULL OR lower(p ->> 'repo') = ${repo?.toLowerCase() ?? null}::text))`,
          search === "" ? sql`true` : sql`strpos(lower(s.title), ${search.toLowerCase()}) > 0`
        ]
        const older = after === null
          ? sql``
          : sql`AND (l.created_at, l.id) < (${DateTime.formatIso(after.createdAt)}::timestamptz, ${after.id})`
        // By a partial index, however many of the grant are over: whoever watches asks for these again and again.
        const live = attention !== null && LIVE.includes(attention)
          ? sql`AND l.status IN ('queued', 'creating', 'running', 'terminating')`
          : sql``
        const rows = yield* sql`
          SELECT ${columns} FROM (
            SELECT s.*, coalesce(sum(octet_length(s.prompt) + octet_length(coalesce(s.turn ->> 'prompt', '')) +
              octet_length(s.approvals::text) + octet_length(s.metadata::text) + octet_length(s.publications::text) +
              octet_length(s.repos::text) + octet_length(s.title))
              OVER (ORDER BY s.created_at DESC, s.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
            FROM (
              SELECT * FROM sandboxes l WHERE l.grant_id = ${grantId}
                ${older} ${live}
              ORDER BY l.created_at DESC, l.id DESC LIMIT ${LOOKED_THROUGH}
            ) s
            WHERE ${sql.and(matches)}
            ORDER BY s.created_at DESC, s.id DESC LIMIT ${limit}
          ) s WHERE bytes_before < ${PAGE_BYTES} ORDER BY s.created_at DESC, s.id DESC`.values
        return rows.map((values) => sandboxOf(values))
      }, guard),

      recent: (grantId) => guard(recentRows(grantId)),

      queue: (grantId) =>
        guard(Effect.map(queueRows(grantId), (rows) => ({
          places: new Map(rows.flatMap(({ id, place }) => id === null ? [] : [[id, place] as const])),
          atWork: rows[0]?.atWork ?? 0,
          slots: rows[0]?.slots ?? 0
        }))),

      past: (grantId, since) =>
        guard(
          Effect.map(pastRows({ grantId, since: DateTime.formatIso(since) }), (rows) =>
            rows.map(({ cachedInput, input, output, ...group }) => ({ ...group, tokens: { input, cachedInput, output } })))
        )
    })
  })
)
