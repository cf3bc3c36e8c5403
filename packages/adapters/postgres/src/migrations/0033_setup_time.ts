import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What of a boot's time was its setups' (docs/decisions/17). */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE sandboxes ADD COLUMN setup_time jsonb`
})
