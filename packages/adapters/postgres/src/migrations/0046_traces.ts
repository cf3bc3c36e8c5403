import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // Whose trace goes on with a sandbox (the empty turn) and with a turn of it. Of requests that were traced only.
  yield* sql`
    CREATE TABLE traces (
      sandbox_id  text NOT NULL REFERENCES sandboxes,
      turn_id     text NOT NULL,
      traceparent text NOT NULL CHECK (length(traceparent) = 55),
      PRIMARY KEY (sandbox_id, turn_id)
    )`
})
