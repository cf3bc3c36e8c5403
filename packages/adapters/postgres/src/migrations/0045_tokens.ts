import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The tokens that costs are of: in the ledger, and of a sandbox as its log tells. Those of before were not counted. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE sandbox_spending
      ADD COLUMN input_tokens        bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
      ADD COLUMN cached_input_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_input_tokens >= 0),
      ADD COLUMN output_tokens       bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0)`
  // As "usage" is: the domain's own encoding.
  yield* sql`ALTER TABLE sandboxes ADD COLUMN tokens jsonb NOT NULL DEFAULT '{"input":0,"cachedInput":0,"output":0}'`
})
