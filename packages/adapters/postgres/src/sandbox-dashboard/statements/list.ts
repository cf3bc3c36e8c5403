import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { LOOKED_THROUGH } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import type { AttentionState } from "@slipway/domain/sandbox/rules/AttentionState"
import type { PullState } from "@slipway/domain/source/schema/PullRequest"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import { DateTime } from "effect"
import type { SqlClient } from "effect/sql"
import { COLUMNS } from "../../sandbox-store/rows/SandboxRow.ts"
import { LIVE, PULLS, ATTENTION } from "../rules/DashboardRules.ts"

export interface DashboardQuery {
  readonly after: { readonly createdAt: DateTime.Utc; readonly id: SandboxId } | null
  readonly limit: number
  readonly pull?: PullState | "any" | undefined
  readonly repo: string | null
  readonly search: string
  readonly createdBy?: string | null | undefined
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly attention: AttentionState | null
  readonly pinnedBy?: string | undefined
  readonly archived?: boolean | undefined
}

/** Texts that the index gives to a search. */
export const HITS = 5000

/**
 * By title, or by a prompt or message. A word of more than {@link HITS} texts is in sandboxes that are found soon: then each sandbox is
 * asked, newest first, until the page is full. A scalar subquery: of an EXISTS the planner might read all texts with the words.
 */
const foundBy = (sql: SqlClient.SqlClient, grantId: string, search: string) => {
  const hits = sql`SELECT sandbox_id FROM search_texts WHERE words @@ search_query(${grantId}::uuid, ${search}) LIMIT ${HITS}`
  return sql`(strpos(lower(s.title), ${search.toLowerCase()}) > 0 OR s.id IN (${hits}) OR
      (SELECT count(*) FROM (${hits}) h) = ${HITS} AND (
        SELECT true FROM search_texts t
        WHERE t.sandbox_id = s.id AND t.words @@ search_query(${grantId}::uuid, ${search}) LIMIT 1
      ))`
}

/**
 * A page of a grant's sandboxes, newest first, up to `PAGE_BYTES`. It looks through the newest {@link LOOKED_THROUGH} after the place, by
 * the index over grant, time and id. Live ones have a partial index, so that the many that are over cost nothing: watchers ask for these
 * again and again.
 */
export const selectDashboard = (sql: SqlClient.SqlClient, grantId: string, query: DashboardQuery) => {
  const { after, archived = false, attention, createdBy = null, limit, metadata = {}, pinnedBy, pull, repo, search } = query
  const columns = sql.literal(COLUMNS)
  const matches = [
    attention === null ? sql`true` : sql.literal(ATTENTION[attention]),
    repo === null ? sql`true` : sql`${repo.toLowerCase()} = ANY(s.repo_names)`,
    pull === undefined ? sql`true` : sql`EXISTS (
    SELECT FROM jsonb_array_elements(s.publications) p WHERE ${sql.literal(PULLS[pull])}
      AND (${repo}::text IS NULL OR lower(p ->> 'repo') = ${repo?.toLowerCase() ?? null}::text))`,
    createdBy === null ? sql`true` : sql`s.created_by = ${createdBy}`,
    Object.keys(metadata).length === 0 ? sql`true` : sql`s.metadata @> ${JSON.stringify(metadata)}::jsonb`,
    search === "" ? sql`true` : foundBy(sql, grantId, search)
  ]
  const older = after === null
    ? sql``
    : sql`AND (l.created_at, l.id) < (${DateTime.formatIso(after.createdAt)}::timestamptz, ${after.id})`
  const live = attention !== null && LIVE.includes(attention)
    ? sql`AND l.status IN ('queued', 'creating', 'running', 'terminating')`
    : sql``
  const hidden = sql.literal(archived ? "l.archived_at IS NOT NULL" : "l.archived_at IS NULL")
  const pinned = pinnedBy === undefined
    ? sql``
    : sql`AND l.id IN (SELECT sandbox_id FROM sandbox_pins WHERE grant_id = ${grantId} AND user_id = ${pinnedBy})`
  return sql`
          SELECT ${columns} FROM (
            SELECT s.*, coalesce(sum(octet_length(s.prompt) + octet_length(coalesce(s.turn ->> 'prompt', '')) +
              octet_length(s.approvals::text) + octet_length(s.metadata::text) + octet_length(s.publications::text) +
              octet_length(s.repos::text) + octet_length(s.title))
              OVER (ORDER BY s.created_at DESC, s.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
            FROM (
              SELECT * FROM sandboxes l WHERE l.grant_id = ${grantId} AND l.deleted_at IS NULL AND ${hidden}
                ${older} ${live} ${pinned}
              ORDER BY l.created_at DESC, l.id DESC LIMIT ${LOOKED_THROUGH}
            ) s
            WHERE ${sql.and(matches)}
            ORDER BY s.created_at DESC, s.id DESC LIMIT ${limit}
          ) s WHERE bytes_before < ${PAGE_BYTES} ORDER BY s.created_at DESC, s.id DESC`.values
}
