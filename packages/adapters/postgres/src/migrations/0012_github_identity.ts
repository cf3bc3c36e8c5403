import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Which GitHub account a user is, for good: logins change hands, ids do not. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE users ADD COLUMN github_id text UNIQUE CHECK (github_id <> '')`
})
