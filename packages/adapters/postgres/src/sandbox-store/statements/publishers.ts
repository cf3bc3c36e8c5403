import { MAX_PUBLISHERS, type Publisher } from "@slipway/domain/sandbox/ports/SandboxStore"
import { sandboxOf } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { SqlClient } from "effect/sql"

/** Both parts go through an index of their own. */
export const selectPublishers = (sql: SqlClient.SqlClient, repo: RepoName, branch: string) =>
  sql<Publisher>`
    SELECT id, "grantId" FROM (
      (SELECT id, grant_id::text AS "grantId", created_at FROM sandboxes
        WHERE continues IS NOT NULL AND lower(continues ->> 'repo') = ${repo.toLowerCase()} AND continues ->> 'branch' = ${branch}
        ORDER BY created_at DESC, id DESC LIMIT ${MAX_PUBLISHERS})
      UNION
      SELECT id, grant_id::text, created_at FROM sandboxes
      WHERE id = ${sandboxOf(branch) ?? ""} AND ${repo.toLowerCase()} = ANY(repo_names)
    ) found
    ORDER BY created_at DESC, id DESC LIMIT ${MAX_PUBLISHERS}`
