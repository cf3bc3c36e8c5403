/** Which of these sandboxes still need their machine, their trees or their grant. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SqlClient } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"

/** Active sandboxes of revoked grants. Grant by grant, so that the many sandboxes of good grants are not read. */
export const selectOfRevokedGrants = (sql: SqlClient.SqlClient, limit: number) =>
  sql<{ readonly id: SandboxId }>`
            SELECT s.id FROM grants g CROSS JOIN LATERAL (
              SELECT id FROM sandboxes WHERE grant_id = g.id AND status IN ('queued', 'creating', 'running') LIMIT ${limit}
            ) s WHERE g.revoked_at IS NOT NULL LIMIT ${limit}`

/** The active ones among these sandboxes, with the machine of each and the machine that it moves from. */
export const selectLive = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  sql<{ readonly id: string; readonly machine: string | null; readonly from: string | null }>`
            SELECT id, machine, moved_from AS from FROM sandboxes
            WHERE id = ANY(${textArray(ids)}::text[]) AND status IN ('queued', 'creating', 'running', 'terminating')`

/** Those of these sandboxes that are active, have work or are leased. */
export const selectNeeded = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  sql<{ readonly id: string }>`
            SELECT id FROM sandboxes WHERE id = ANY(${textArray(ids)}::text[]) AND (
              status IN ('queued', 'creating', 'running', 'terminating') OR work IS NOT NULL
              OR worker IS NOT NULL AND lease_until > now()
            )`
