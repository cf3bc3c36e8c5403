import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Whether the newest try at a checkpoint failed (docs/decisions/16): a drain moves no sandbox of which its machine alone has
 * something.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE sandboxes ADD COLUMN pinned boolean NOT NULL DEFAULT false`
  // One that worked and owes nothing has tried: the log of no other one is read.
  yield* sql`
    UPDATE sandboxes s SET pinned = true
    WHERE status IN ('running', 'terminating') AND NOT owes_checkpoint AND turn IS NOT NULL AND 'sandbox.checkpoint' = (
      SELECT CASE WHEN e.wire::jsonb #> '{data,error}' IS NOT NULL THEN e.type END FROM sandbox_events e
      WHERE e.sandbox_id = s.id AND e.type IN ('sandbox.checkpoint', 'sandbox.restored') ORDER BY e.seq DESC LIMIT 1)`

  // As isUnsaved of the domain says.
  yield* sql`
    CREATE FUNCTION is_unsaved(of_turn jsonb, of_checkpoint integer, of_origin jsonb, owes boolean, is_pinned boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
      SELECT CASE
        WHEN of_turn IS NULL THEN false
        WHEN of_checkpoint = 0 AND of_origin IS NULL THEN (of_turn ->> 'n')::integer > 1 OR of_turn ->> 'startedAt' IS NOT NULL
        ELSE owes OR is_pinned
          OR of_turn ->> 'startedAt' IS NOT NULL AND of_turn ->> 'state' IN ('pending', 'running', 'awaiting_approval')
      END
    $$`
})
