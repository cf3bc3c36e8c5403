import { MAX_QUEUED } from "@slipway/domain/partner/rules/Notification"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"

const textual = (types: ReadonlyArray<string>) => types.map((type) => `'${type}'`).join(", ")
/** Types of notifications that are those of events. */
const ofEvents = textual(NOTIFICATION_TYPES.filter((type) => !type.startsWith("sandbox.")))

/**
 * The queue of notifications for webhook endpoints. Triggers of the log write it, in the transaction of the event, also for processes of
 * earlier versions. See `Notification` of the domain.
 */
export const notifications: ReadonlyArray<string> = [
  // An event that some endpoint wants. The log has its text.
  `CREATE TABLE IF NOT EXISTS notifications (
    sandbox_id text           NOT NULL REFERENCES sandboxes,
    seq        bigint         NOT NULL CHECK (seq >= 1),
    types      text[]         NOT NULL CHECK (cardinality(types) > 0),
    at         timestamptz(3) NOT NULL,
    -- Of the sandbox, right after the event.
    title      text           NOT NULL,
    status     text           NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
  )`,
  "CREATE INDEX IF NOT EXISTS notifications_age ON notifications (at)",

  // How far an endpoint is with a sandbox. Without foreign keys, which would lock the endpoints' rows at each event: all writers of a grant
  // would share these locks.
  `CREATE TABLE IF NOT EXISTS notification_lines (
    sandbox_id    text           NOT NULL,
    endpoint_id   uuid           NOT NULL,
    -- The number of the last event that is done, and of the last event that the endpoint wants.
    cursor        bigint         NOT NULL CHECK (cursor >= 0),
    newest        bigint         NOT NULL,
    failures      integer        NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- Null: nothing waits.
    due_at        timestamptz(3),
    -- The worker with this fence may make an attempt, until claimed_until.
    fence         bigint         NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    PRIMARY KEY (sandbox_id, endpoint_id)
  )`,
  "CREATE INDEX IF NOT EXISTS notification_lines_due ON notification_lines (endpoint_id, due_at)",
  "CREATE INDEX IF NOT EXISTS notification_lines_claimed ON notification_lines (endpoint_id) WHERE claimed_until IS NOT NULL",

  // Notifications that a person asked to have sent once more.
  `CREATE TABLE IF NOT EXISTS notification_redeliveries (
    endpoint_id   uuid           NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    sandbox_id    text           NOT NULL,
    seq           bigint         NOT NULL,
    asked_at      timestamptz(3) NOT NULL,
    fence         bigint         NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    PRIMARY KEY (endpoint_id, sandbox_id, seq),
    FOREIGN KEY (sandbox_id, seq) REFERENCES notifications ON DELETE CASCADE
  )`,
  "CREATE INDEX IF NOT EXISTS notification_redeliveries_notification ON notification_redeliveries (sandbox_id, seq)",

  // Equals notificationTypes of the domain.
  `CREATE OR REPLACE FUNCTION notification_types(of_type text, of_wire text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
      WHEN of_type = 'sandbox.status' THEN CASE of_wire::jsonb #>> '{data,status}'
        WHEN 'running' THEN ARRAY['sandbox.running']
        WHEN 'failed' THEN ARRAY['sandbox.failed', 'sandbox.ended']
        WHEN 'succeeded' THEN ARRAY['sandbox.ended']
        WHEN 'terminated' THEN ARRAY['sandbox.ended'] END
      WHEN of_type IN (${ofEvents}) THEN ARRAY[of_type]
    END
  $$`,

  // A line may be written for an endpoint that is deleted meanwhile. Nothing is sent then, and a purge deletes the line. Notifications are
  // counted only where a log is long enough to have too many.
  `CREATE OR REPLACE FUNCTION queue_notification() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    of_types text[] := SCHEMA.notification_types(NEW.type, NEW.wire);
    listening uuid[];
  BEGIN
    IF of_types IS NULL THEN RETURN NULL; END IF;
    listening := ARRAY(
      SELECT e.id FROM SCHEMA.webhook_endpoints e
      WHERE e.grant_id = (SELECT s.grant_id FROM SCHEMA.sandboxes s WHERE s.id = NEW.sandbox_id) AND e.notifications && of_types);
    IF cardinality(listening) = 0 THEN RETURN NULL; END IF;
    INSERT INTO SCHEMA.notifications (sandbox_id, seq, types, at, title, status)
    SELECT NEW.sandbox_id, NEW.seq, of_types, NEW.at, s.title, s.status FROM SCHEMA.sandboxes s WHERE s.id = NEW.sandbox_id;
    IF NEW.seq > ${MAX_QUEUED} THEN
      DELETE FROM SCHEMA.notifications n WHERE n.sandbox_id = NEW.sandbox_id AND n.seq <= (
        SELECT o.seq FROM SCHEMA.notifications o WHERE o.sandbox_id = NEW.sandbox_id ORDER BY o.seq DESC OFFSET ${MAX_QUEUED} LIMIT 1);
    END IF;
    -- Not later than now: another clock may have dated the event ahead.
    INSERT INTO SCHEMA.notification_lines AS line (sandbox_id, endpoint_id, cursor, newest, due_at)
    SELECT NEW.sandbox_id, id, NEW.seq - 1, NEW.seq, least(NEW.at, date_trunc('milliseconds', clock_timestamp()))
    FROM unnest(listening) AS id
    ON CONFLICT (sandbox_id, endpoint_id) DO UPDATE
      SET newest = excluded.newest, due_at = coalesce(line.due_at, excluded.due_at);
    RETURN NULL;
  END $$`,
  // A creation calls no function: its statuses are no notifications.
  `CREATE OR REPLACE TRIGGER notification_of_event AFTER INSERT ON sandbox_events FOR EACH ROW
  WHEN (NEW.type IN (${ofEvents})
    OR NEW.type = 'sandbox.status' AND NEW.wire NOT LIKE '%"status":"queued"%' AND NEW.wire NOT LIKE '%"status":"creating"%')
  EXECUTE FUNCTION queue_notification()`,

  // Also for processes of earlier versions, which delete endpoints without their lines.
  `CREATE OR REPLACE FUNCTION forget_lines() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM SCHEMA.notification_lines WHERE endpoint_id = OLD.id;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER lines_of_endpoint AFTER DELETE ON webhook_endpoints FOR EACH ROW EXECUTE FUNCTION forget_lines()`,

  // They have the title of the sandbox, and go with its events.
  `CREATE OR REPLACE FUNCTION forget_notifications() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM SCHEMA.notifications n USING (SELECT sandbox_id, max(seq) AS seq FROM gone GROUP BY sandbox_id) g
    WHERE n.sandbox_id = g.sandbox_id AND n.seq <= g.seq;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER notifications_of_events AFTER DELETE ON sandbox_events REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION forget_notifications()`
]
