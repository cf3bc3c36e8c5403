import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The receipt of a message keeps which turn it started: a repeated one is answered with it, however many came since. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // The turns of a sandbox, each with the revision that it began, which the receipt of its message has as well: a revision counts
  // the events of these types. The time would not do, which several commands may have in common. It takes the whole log, which is
  // kept for as long after the sandbox's end as a key is after its message: whoever may still repeat one is answered.
  yield* sql`
    CREATE FUNCTION started_turns(of_sandbox text) RETURNS TABLE (revision bigint, turn_id text) LANGUAGE sql STABLE AS $$
      SELECT counted.revision, counted.wire::jsonb ->> 'turn_id' FROM (
        SELECT type, wire, row_number() OVER (ORDER BY seq) AS revision FROM sandbox_events
        WHERE sandbox_id = of_sandbox AND type IN (
          'sandbox.status', 'turn.started', 'turn.updated', 'turn.completed', 'approval.requested', 'approval.resolved',
          'pull_request.updated')
      ) counted
      WHERE counted.type = 'turn.updated' AND counted.wire::jsonb #>> '{data,state}' = 'pending'
    $$`
  // Only a key finds a message again: the logs of sandboxes without one are not read. The others take a while (34 s for 2,000
  // sandboxes of 500 events, 2026-11-22), so they are read before every command has to wait for the table. What other processes
  // write meanwhile gets its turn like all that they write afterwards: when it is asked for.
  yield* sql`
    CREATE TABLE found_turns AS
    SELECT keyed.sandbox_id, started.revision, started.turn_id
    FROM (SELECT DISTINCT sandbox_id FROM idempotency_keys WHERE command_id IS NOT NULL) keyed
    CROSS JOIN LATERAL started_turns(keyed.sandbox_id) started`
  yield* sql`ALTER TABLE commands ADD COLUMN turn_id text`
  yield* sql`
    UPDATE commands c SET turn_id = found.turn_id FROM found_turns found
    WHERE c.sandbox_id = found.sandbox_id AND c.revision = found.revision AND c.outcome = 'applied'`
  yield* sql`DROP TABLE found_turns`
})
