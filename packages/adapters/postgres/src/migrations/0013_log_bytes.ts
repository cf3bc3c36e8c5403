import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** How much of each sandbox's log there is. Those that are there already count from now on: adding up their logs would take long. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE sandboxes ADD COLUMN log_bytes bigint NOT NULL DEFAULT 0 CHECK (log_bytes >= 0)`
})
