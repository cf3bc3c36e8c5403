import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Leases of sandboxes that are over, which are published still: few, since a worker that gives one back takes its name away. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE INDEX sandboxes_held_over ON sandboxes (machine)
    WHERE worker IS NOT NULL AND status IN ('succeeded', 'failed')`
})
