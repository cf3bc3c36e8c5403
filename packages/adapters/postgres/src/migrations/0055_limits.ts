import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What is due is found by when each state began, so that the limits of now decide (docs/decisions/2.1). `deadline_at`, by the limits
 * of the process that wrote the row, is for workers of the version before, and goes with the next one.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE INDEX sandboxes_by_age ON sandboxes (created_at) WHERE status IN ('queued', 'creating', 'running')`
  yield* sql`CREATE INDEX sandboxes_queued_since ON sandboxes (created_at) WHERE status = 'queued'`
  yield* sql`
    CREATE INDEX sandboxes_under_way_since ON sandboxes (status, status_at) WHERE status IN ('creating', 'terminating')`
  yield* sql`
    CREATE INDEX sandboxes_idle_since ON sandboxes (coalesce(idle_since, status_at))
    WHERE status = 'running' AND work IS DISTINCT FROM 'turn'`
})
