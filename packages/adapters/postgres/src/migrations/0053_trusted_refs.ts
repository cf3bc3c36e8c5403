import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Refs that owners listed: setups of commits on them have the repository's secrets. Those of a grant go when it is revoked. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE trusted_refs (
      grant_id  uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
      repo      text           NOT NULL,
      ref       text           NOT NULL,
      listed_at timestamptz(3) NOT NULL
    )`
  yield* sql`CREATE UNIQUE INDEX trusted_refs_key ON trusted_refs (grant_id, lower(repo), ref)`
})
