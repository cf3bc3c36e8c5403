import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * A message of the agent that went on after it was listed is found again by its id. Without the index an agent that writes
 * many short messages made each transaction look at all of them for each (48 s instead of 4 s for a turn's 50,000).
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX messages_id ON messages (sandbox_id, id)`
})
