import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** By which logins that wait are limited. Processes of earlier versions leave it out: the address counts then. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE device_logins ADD COLUMN network text`
})
