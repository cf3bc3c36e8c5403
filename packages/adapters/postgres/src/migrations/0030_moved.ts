import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * From which machine a sandbox was taken, and why, until the one that took it has everything (docs/decisions/15). All three are
 * `NULL` while `machine` has it.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // moved_fence: the fence of the lease that was told so last. Whoever leaves it behind does not know the column.
  yield* sql`
    ALTER TABLE sandboxes
      ADD COLUMN moved       text CHECK (moved IN ('drained', 'lost')),
      ADD COLUMN moved_from  text,
      ADD COLUMN moved_fence bigint,
      ADD CHECK ((moved IS NULL) = (moved_from IS NULL) AND (moved IS NULL) = (moved_fence IS NULL))`

  // For a process of an earlier version, everything is on the machine that took it last.
  yield* sql`
    CREATE FUNCTION forget_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.moved := NULL;
      NEW.moved_from := NULL;
      NEW.moved_fence := NULL;
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER move_of_earlier_version BEFORE UPDATE OF fence ON sandboxes FOR EACH ROW
    WHEN (NEW.moved IS NOT NULL AND NEW.fence <> OLD.fence AND NEW.moved_fence <> NEW.fence) EXECUTE FUNCTION forget_moved()`
})
