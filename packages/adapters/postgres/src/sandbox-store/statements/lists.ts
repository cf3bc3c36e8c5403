/** Pages of a grant's sandboxes, newest first, each up to `PAGE_BYTES`. The index over grant, time and id gives their order. */
import type { ListQuery } from "@slipway/domain/sandbox/ports/SandboxStore"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import type { SqlClient } from "effect/sql"
import { iso } from "../../sql/Iso.ts"
import { LIST_COLUMNS, SUMMARY_COLUMNS, SUMMARY_NAMES } from "../rows/SandboxRow.ts"
import { bytesBefore } from "./pageBytes.ts"

/** Which sandboxes, and in which order. */
const newest = (reads: SqlClient.SqlClient, grantId: string, { after, limit, repo, status }: ListQuery) =>
  reads`
          WHERE s.grant_id = ${grantId} AND s.deleted_at IS NULL
            ${after === null ? reads`` : reads`AND (s.created_at, s.id) < (${iso(after.createdAt)}::timestamptz, ${after.id})`}
            ${status === null ? reads`` : reads`AND s.status = ${status}`}
            ${repo === null ? reads`` : reads`AND ${repo.toLowerCase()} = ANY(s.repo_names)`}
          ORDER BY s.created_at DESC, s.id DESC LIMIT ${limit}`

/** Whole sandboxes without the texts of waiting messages. */
export const selectPage = (reads: SqlClient.SqlClient, grantId: string, query: ListQuery) => {
  const bytes = reads`
          octet_length(s.prompt) + octet_length(coalesce(s.turn ->> 'prompt', '')) + octet_length(s.approvals::text) +
          octet_length(s.metadata::text) + octet_length(s.publications::text) + octet_length(s.repos::text) + octet_length(s.title)`
  return reads`
          SELECT ${reads.literal(LIST_COLUMNS)} FROM (
          SELECT s.*, ${bytesBefore(reads, bytes, reads`created_at DESC, id DESC`)}
          FROM sandboxes s ${newest(reads, grantId, query)}
          ) s WHERE bytes_before < ${PAGE_BYTES} ORDER BY s.created_at DESC, s.id DESC`.values
}

/** Summaries for clients: prompts stay on the disk. */
export const selectSummaries = (reads: SqlClient.SqlClient, grantId: string, query: ListQuery) => {
  const bytes = reads`
          coalesce(octet_length(p.error), 0) + octet_length(p.metadata) + octet_length(p.repos) + octet_length(p.title)`
  return reads`
          SELECT ${reads.literal(SUMMARY_NAMES)} FROM (
          SELECT p.*, ${bytesBefore(reads, bytes, reads`created_at DESC, id DESC`)}
          FROM (SELECT ${reads.literal(SUMMARY_COLUMNS)} FROM sandboxes s ${newest(reads, grantId, query)}) p
          ) p WHERE bytes_before < ${PAGE_BYTES} ORDER BY created_at DESC, id DESC`.values
}
