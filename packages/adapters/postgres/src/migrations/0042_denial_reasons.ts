import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Why a person denied what an agent asked for: the worker that tells the agent reads it (docs/decisions/3). */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE approvals
      ADD COLUMN reason text CHECK (reason IS NULL OR outcome = 'denied' AND length(reason) BETWEEN 1 AND 2000)`
})
