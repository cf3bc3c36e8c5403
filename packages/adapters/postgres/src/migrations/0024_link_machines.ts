import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** On which machine a worker is, by the name its leases have for it. A process of an earlier version does not say. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE worker_links ADD COLUMN machine text`
})
