import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Attempts that were not made, since the event or the secret could not be read. Earlier versions see the trouble `connection`. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE webhook_deliveries ADD COLUMN unread text`
})
