import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What is forgotten when its time is over: the events of finished sandboxes, and idempotency keys. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // purged_seq: the newest event that is no longer kept. purged_before: what the last purge of this sandbox took as the
  // end of its life; one that is terminated afterwards ends again, later. Neither column is part of an ordinary write,
  // nor is anything else of the index, so writes stay HOT.
  yield* sql`
    ALTER TABLE sandboxes
      ADD COLUMN purged_seq bigint NOT NULL DEFAULT 0 CHECK (purged_seq >= 0 AND purged_seq <= last_seq),
      ADD COLUMN purged_before timestamptz(3)`
  yield* sql`
    CREATE INDEX sandboxes_purge ON sandboxes (status_at)
    WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)`
  yield* sql`CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)`
})
