import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What is looked for in logs of up to 512 MiB: their checkpoints, and by its turn the receipt of a message. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE INDEX sandbox_events_checkpoints ON sandbox_events (sandbox_id, seq)
    WHERE type IN ('sandbox.checkpoint', 'sandbox.restored')`
  yield* sql`CREATE INDEX commands_turn ON commands (turn_id) WHERE turn_id IS NOT NULL`
})
