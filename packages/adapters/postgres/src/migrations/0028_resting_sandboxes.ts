import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Sandboxes at rest are counted in a table that is narrow, so that their own rows are not looked at, vacuumed or not. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE resting_sandboxes (sandbox_id text PRIMARY KEY)`
  yield* sql`COMMENT ON TABLE resting_sandboxes IS 'Running sandboxes without work. Kept by triggers, whoever writes them.'`
  yield* sql`
    CREATE FUNCTION keep_resting() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.status = 'running' AND NEW.work IS NULL THEN
        INSERT INTO resting_sandboxes VALUES (NEW.id);
      ELSE
        DELETE FROM resting_sandboxes WHERE sandbox_id = NEW.id;
      END IF;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER resting_made AFTER INSERT ON sandboxes FOR EACH ROW
    WHEN (NEW.status = 'running' AND NEW.work IS NULL) EXECUTE FUNCTION keep_resting()`
  yield* sql`
    CREATE TRIGGER resting_changed AFTER UPDATE ON sandboxes FOR EACH ROW
    WHEN ((OLD.status = 'running' AND OLD.work IS NULL) <> (NEW.status = 'running' AND NEW.work IS NULL))
    EXECUTE FUNCTION keep_resting()`
  yield* sql`INSERT INTO resting_sandboxes SELECT id FROM sandboxes WHERE status = 'running' AND work IS NULL`

  // Workers of earlier versions claimed by it: those that still run find the live ones by sandboxes_active.
  yield* sql`DROP INDEX sandboxes_claim`
})
