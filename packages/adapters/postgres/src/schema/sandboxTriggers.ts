/** Rules of sandboxes that the database keeps itself: for statements that select many rows, and for processes of an earlier version. */
export const sandboxTriggers: ReadonlyArray<string> = [
  // Equals workOf of the domain.
  `CREATE OR REPLACE FUNCTION work_of(of_status text, of_turn jsonb, of_publications jsonb, of_restoring integer, owes boolean) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
      WHEN of_status IN ('queued', 'creating') THEN 'boot'
      WHEN of_status = 'terminating' THEN 'errand'
      WHEN of_status = 'running' AND of_turn ->> 'state' IN ('pending', 'running', 'awaiting_approval') THEN 'turn'
      WHEN of_status = 'running' AND (owes OR of_restoring IS NOT NULL) THEN 'errand'
      WHEN of_status IN ('running', 'succeeded', 'failed')
        AND of_publications @@ '$[*].actionState == "publishing" || $[*].actionState == "updating"' THEN 'errand'
    END
  $$`,
  // Equals isUnsaved of the domain.
  `CREATE OR REPLACE FUNCTION is_unsaved(of_turn jsonb, of_checkpoint integer, of_origin jsonb, owes boolean, is_pinned boolean)
  RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
      WHEN of_turn IS NULL THEN false
      WHEN of_checkpoint = 0 AND of_origin IS NULL THEN (of_turn ->> 'n')::integer > 1 OR of_turn ->> 'startedAt' IS NOT NULL
      ELSE owes OR is_pinned
        OR of_turn ->> 'startedAt' IS NOT NULL AND of_turn ->> 'state' IN ('pending', 'running', 'awaiting_approval')
    END
  $$`,

  // A process of an earlier version does not write "work": it is computed for it.
  `CREATE OR REPLACE FUNCTION keep_work() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.work := SCHEMA.work_of(NEW.status, NEW.turn, NEW.publications, NEW.restoring, NEW.owes_checkpoint);
    NEW.work_seq := NEW.last_seq;
    NEW.work_since := CASE
      WHEN NEW.work IS NULL THEN NULL
      WHEN TG_OP = 'UPDATE' AND OLD.work_since IS NOT NULL THEN OLD.work_since
      ELSE now() END;
    RETURN NEW;
  END $$`,
  `CREATE OR REPLACE TRIGGER work_of_earlier_version BEFORE INSERT OR UPDATE OF last_seq ON sandboxes FOR EACH ROW
  WHEN (NEW.work_seq IS DISTINCT FROM NEW.last_seq) EXECUTE FUNCTION keep_work()`,

  // Nor does it know "drained": a worker that takes a sandbox has it on its own machine.
  `CREATE OR REPLACE FUNCTION keep_undrained() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.drained := false;
    RETURN NEW;
  END $$`,
  `CREATE OR REPLACE TRIGGER take_of_earlier_version BEFORE UPDATE OF fence ON sandboxes FOR EACH ROW
  WHEN (NEW.drained AND NEW.fence <> OLD.fence) EXECUTE FUNCTION keep_undrained()`,

  // Nor "moved": for such a process, everything is on the machine that took the sandbox last.
  `CREATE OR REPLACE FUNCTION forget_moved() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.moved := NULL;
    NEW.moved_from := NULL;
    NEW.moved_fence := NULL;
    RETURN NEW;
  END $$`,
  `CREATE OR REPLACE TRIGGER move_of_earlier_version BEFORE UPDATE OF fence ON sandboxes FOR EACH ROW
  WHEN (NEW.moved IS NOT NULL AND NEW.fence <> OLD.fence AND NEW.moved_fence <> NEW.fence) EXECUTE FUNCTION forget_moved()`,

  `CREATE OR REPLACE FUNCTION keep_resting() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NEW.status = 'running' AND NEW.work IS NULL THEN
      INSERT INTO SCHEMA.resting_sandboxes VALUES (NEW.id);
    ELSE
      DELETE FROM SCHEMA.resting_sandboxes WHERE sandbox_id = NEW.id;
    END IF;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER resting_made AFTER INSERT ON sandboxes FOR EACH ROW
  WHEN (NEW.status = 'running' AND NEW.work IS NULL) EXECUTE FUNCTION keep_resting()`,
  `CREATE OR REPLACE TRIGGER resting_changed AFTER UPDATE ON sandboxes FOR EACH ROW
  WHEN ((OLD.status = 'running' AND OLD.work IS NULL) <> (NEW.status = 'running' AND NEW.work IS NULL))
  EXECUTE FUNCTION keep_resting()`,

  // A change of a sandbox with feedback makes its watches due in the same transaction, and adds those of new pull requests.
  `CREATE OR REPLACE FUNCTION keep_feedback_watches() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO SCHEMA.feedback_watches AS known (sandbox_id, repo, branch, look_at, noticed)
    SELECT NEW.id, p ->> 'repo', coalesce(
      p #>> '{pushed,headRef}',
      CASE WHEN lower(NEW.continues ->> 'repo') = lower(p ->> 'repo') THEN NEW.continues ->> 'branch' END,
      'slipway/' || NEW.id
    ), now(), 1
    FROM jsonb_array_elements(NEW.publications) p WHERE p ->> 'number' IS NOT NULL
    ON CONFLICT (sandbox_id, repo) DO UPDATE SET
      branch = excluded.branch, look_at = least(known.look_at, excluded.look_at), noticed = known.noticed + 1;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER feedback_made AFTER INSERT ON sandboxes FOR EACH ROW
  WHEN (NEW.feedback IS NOT NULL) EXECUTE FUNCTION keep_feedback_watches()`,
  `CREATE OR REPLACE TRIGGER feedback_changed AFTER UPDATE ON sandboxes FOR EACH ROW
  WHEN (NEW.feedback IS NOT NULL AND (
    NEW.feedback IS DISTINCT FROM OLD.feedback OR NEW.publications <> OLD.publications OR NEW.status <> OLD.status
    OR NEW.turn -> 'state' IS DISTINCT FROM OLD.turn -> 'state'))
  EXECUTE FUNCTION keep_feedback_watches()`
]
