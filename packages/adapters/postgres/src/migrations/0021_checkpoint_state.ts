import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What a sandbox knows of its checkpoints, and the checkpoint that a fork starts with. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // One that an agent worked in has trees that no checkpoint holds yet.
  yield* sql`
    ALTER TABLE sandboxes
      ADD COLUMN checkpoint      integer NOT NULL DEFAULT 0,
      ADD COLUMN owes_checkpoint boolean NOT NULL DEFAULT false,
      ADD COLUMN restoring       integer,
      ADD COLUMN restores        integer NOT NULL DEFAULT 0,
      ADD COLUMN origin          jsonb`
  yield* sql`UPDATE sandboxes SET owes_checkpoint = true WHERE status = 'running' AND turn ->> 'startedAt' IS NOT NULL`
  // Two more types count in a revision.
  yield* sql`
    CREATE OR REPLACE FUNCTION started_turns(of_sandbox text) RETURNS TABLE (revision bigint, turn_id text) LANGUAGE sql STABLE AS $$
      SELECT counted.revision, counted.wire::jsonb ->> 'turn_id' FROM (
        SELECT type, wire, row_number() OVER (ORDER BY seq) AS revision FROM sandbox_events
        WHERE sandbox_id = of_sandbox AND type IN (
          'sandbox.status', 'turn.started', 'turn.updated', 'turn.completed', 'approval.requested', 'approval.resolved',
          'pull_request.updated', 'sandbox.restoring', 'sandbox.restored')
      ) counted
      WHERE counted.type = 'turn.updated' AND counted.wire::jsonb #>> '{data,state}' = 'pending'
    $$`
})
