import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Messages that wait while a turn is active (docs/decisions/18). */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE sandboxes
      ADD COLUMN waiting       jsonb  NOT NULL DEFAULT '[]' CHECK (jsonb_array_length(waiting) <= 10),
      ADD COLUMN waiting_texts jsonb  NOT NULL DEFAULT '[]',
      ADD COLUMN turnless      bigint NOT NULL DEFAULT 0,
      ADD CHECK (jsonb_array_length(waiting) = jsonb_array_length(waiting_texts))`
  yield* sql`COMMENT ON COLUMN sandboxes.waiting_texts IS 'Apart, and so on other pages: lists read past them.'`
})
