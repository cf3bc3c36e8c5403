import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What a sandbox needs a worker for (docs/decisions/15), so that those at rest are passed over: workers look at rows with
 * `work` alone. A process of an earlier version writes no `work`; the database works it out for it.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // work_seq: last_seq when work was written. Whoever leaves it behind does not know the column.
  yield* sql`
    ALTER TABLE sandboxes
      ADD COLUMN work       text CHECK (work IN ('boot', 'turn', 'errand')),
      ADD COLUMN work_since timestamptz,
      ADD COLUMN work_seq   bigint,
      ADD COLUMN drained    boolean NOT NULL DEFAULT false,
      ADD CHECK ((work IS NULL) = (work_since IS NULL))`

  // As workOf of the domain says. Kept as it is: later rules come with a function of their own.
  yield* sql`
    CREATE FUNCTION work_of(of_status text, of_turn jsonb, of_publications jsonb, of_restoring integer, owes boolean) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
      SELECT CASE
        WHEN of_status IN ('queued', 'creating') THEN 'boot'
        WHEN of_status = 'terminating' THEN 'errand'
        WHEN of_status = 'running' AND of_turn ->> 'state' IN ('pending', 'running', 'awaiting_approval') THEN 'turn'
        WHEN of_status = 'running' AND (owes OR of_restoring IS NOT NULL) THEN 'errand'
        WHEN of_status IN ('running', 'succeeded', 'failed')
          AND of_publications @@ '$[*].actionState == "publishing" || $[*].actionState == "updating"' THEN 'errand'
      END
    $$`

  yield* sql`
    UPDATE sandboxes SET work = work_of(status, turn, publications, restoring, owes_checkpoint), work_since = now(), work_seq = last_seq
    WHERE work_of(status, turn, publications, restoring, owes_checkpoint) IS NOT NULL`

  yield* sql`
    CREATE FUNCTION keep_work() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.work := work_of(NEW.status, NEW.turn, NEW.publications, NEW.restoring, NEW.owes_checkpoint);
      NEW.work_seq := NEW.last_seq;
      NEW.work_since := CASE
        WHEN NEW.work IS NULL THEN NULL
        WHEN TG_OP = 'UPDATE' AND OLD.work_since IS NOT NULL THEN OLD.work_since
        ELSE now() END;
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER work_of_earlier_version BEFORE INSERT OR UPDATE OF last_seq ON sandboxes FOR EACH ROW
    WHEN (NEW.work_seq IS DISTINCT FROM NEW.last_seq) EXECUTE FUNCTION keep_work()`

  // Nor does it know the mark of what may move: whoever takes a sandbox takes it away.
  yield* sql`
    CREATE FUNCTION keep_undrained() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.drained := false;
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER take_of_earlier_version BEFORE UPDATE OF fence ON sandboxes FOR EACH ROW
    WHEN (NEW.drained AND NEW.fence <> OLD.fence) EXECUTE FUNCTION keep_undrained()`

  // Machines that gave up what they had: whatever was not leased since may move at once. One row instead of all of its sandboxes'.
  yield* sql`CREATE TABLE drained_machines (machine text PRIMARY KEY, at timestamptz NOT NULL)`

  // What workers choose from, and what is counted of those that have work.
  yield* sql`CREATE INDEX sandboxes_work ON sandboxes (work, work_since, created_at, id) WHERE work IS NOT NULL`
  // At rest: counted by this index alone.
  yield* sql`CREATE INDEX sandboxes_at_rest ON sandboxes (machine) WHERE status = 'running' AND work IS NULL`
  // With a lease, or with one that ran out: a worker that gives one back takes its name away.
  yield* sql`
    CREATE INDEX sandboxes_held ON sandboxes (machine)
    WHERE worker IS NOT NULL AND status IN ('queued', 'creating', 'running', 'terminating')`
  yield* sql`CREATE INDEX sandboxes_drained ON sandboxes (machine) WHERE drained`
  // Of one grant: its active ones, and what is to end with it.
  yield* sql`
    CREATE INDEX sandboxes_active ON sandboxes (grant_id) WHERE status IN ('queued', 'creating', 'running', 'terminating')`
})
