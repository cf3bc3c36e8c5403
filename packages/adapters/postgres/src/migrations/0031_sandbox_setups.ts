import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** How the setup of a sandbox went, and the end of what it wrote. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE sandbox_setups (
      sandbox_id text        PRIMARY KEY REFERENCES sandboxes,
      state      text        NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
      started_at timestamptz NOT NULL,
      ms         bigint,
      cache      text        NOT NULL CHECK (cache IN ('hit', 'miss', 'none')),
      exit_code  integer,
      output     text        NOT NULL,
      told       text
    )`
  yield* sql`COMMENT ON TABLE sandbox_setups IS 'The newest run of each. Deleted with the events of its sandbox.'`
  yield* sql`COMMENT ON COLUMN sandbox_setups.output IS 'The last MiB, without the values of secrets.'`
  yield* sql`COMMENT ON COLUMN sandbox_setups.told IS 'What agents are told of it.'`
})
