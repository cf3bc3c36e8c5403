import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // Sandboxes that something is reserved for, in the order in which they are looked through.
  yield* sql`CREATE INDEX model_calls_open ON model_calls (sandbox_id COLLATE "C") WHERE state = 'open'`
})
