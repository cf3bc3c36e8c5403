import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** When the newest event of a sandbox was recorded: none is dated before it. Processes of earlier versions leave it as it is. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE sandboxes ADD COLUMN recorded_at timestamptz`
})
