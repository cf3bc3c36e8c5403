import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What of checkpoints is to be forgotten is found without looking at those that stay. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE checkpoint_marks (
      sandbox_id text PRIMARY KEY REFERENCES sandboxes,
      due_at     timestamptz NOT NULL DEFAULT '-infinity'
    )`
  yield* sql`COMMENT ON TABLE checkpoint_marks IS 'Sandboxes that may have checkpoints to forget.'`
  yield* sql`COMMENT ON COLUMN checkpoint_marks.due_at IS '-infinity: look at once; else when it settled: once that is long ago.'`
  yield* sql`CREATE INDEX checkpoint_marks_due ON checkpoint_marks (due_at)`
  yield* sql`INSERT INTO checkpoint_marks (sandbox_id) SELECT DISTINCT sandbox_id FROM checkpoints`

  yield* sql`
    ALTER TABLE checkpoint_contents
      ADD COLUMN seen   boolean     NOT NULL DEFAULT false,
      ADD COLUMN due_at timestamptz NOT NULL DEFAULT '-infinity'`
  yield* sql`COMMENT ON COLUMN checkpoint_contents.seen IS 'Whether a row of checkpoints makes it visible: kept by a trigger.'`
  yield* sql`COMMENT ON COLUMN checkpoint_contents.due_at IS 'Later than -infinity: its bytes were removed, and are again then.'`
  yield* sql`UPDATE checkpoint_contents SET seen = true WHERE id IN (SELECT content FROM checkpoints)`
  // Of the others there are few: puts under way, and what is to be removed.
  yield* sql`CREATE INDEX checkpoint_contents_unseen ON checkpoint_contents (place, due_at) WHERE NOT seen`
  yield* sql`
    CREATE FUNCTION keep_seen() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE checkpoint_contents SET seen = (TG_OP = 'INSERT') WHERE id = CASE TG_OP WHEN 'INSERT' THEN NEW.content ELSE OLD.content END;
      RETURN NULL;
    END $$`
  yield* sql`CREATE TRIGGER checkpoints_seen AFTER INSERT OR DELETE ON checkpoints FOR EACH ROW EXECUTE FUNCTION keep_seen()`
})
