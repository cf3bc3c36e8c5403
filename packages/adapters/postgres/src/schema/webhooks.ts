/** Webhooks of partners: endpoints, how far each has read its feed, and the result of each attempt. */
export const webhooks: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS webhook_endpoints (
    id              uuid           PRIMARY KEY,
    grant_id        uuid           NOT NULL REFERENCES grants,
    url             text           NOT NULL,
    -- Of the feed. Null: every type, or none where notifications has types.
    types           text[]         CHECK (cardinality(types) > 0),
    -- [{value, until}], the current one first. They sign, so a digest would not do.
    secrets         jsonb          NOT NULL,
    created_at      timestamptz(3) NOT NULL,
    -- The feed's number of the last event that is done.
    cursor          bigint         NOT NULL CHECK (cursor >= 0),
    failures        integer        NOT NULL DEFAULT 0 CHECK (failures >= 0),
    due_at          timestamptz(3) NOT NULL,
    disabled_at     timestamptz(3),
    disabled_reason text           CHECK (disabled_reason IN ('gone', 'retries_exhausted')),
    -- The worker with this fence may make an attempt, until claimed_until.
    fence           bigint         NOT NULL DEFAULT 0,
    claimed_until   timestamptz,
    -- Types of notifications. With these alone, cursor is the largest one, so that processes of earlier versions send nothing of the feed.
    notifications   text[]         CHECK (cardinality(notifications) > 0),
    -- When a notification failed first since anything was accepted.
    refusing_since  timestamptz(3),
    -- Equals disabled_at where the endpoint accepted nothing for too long. Earlier versions see "retries_exhausted".
    silenced_at     timestamptz(3),
    CHECK (num_nulls(disabled_at, disabled_reason) IN (0, 2))
  )`,
  "CREATE INDEX IF NOT EXISTS webhook_endpoints_list ON webhook_endpoints (grant_id, created_at, id)",
  "CREATE INDEX IF NOT EXISTS webhook_endpoints_due ON webhook_endpoints (due_at) WHERE disabled_at IS NULL",

  // Events that a person asked to have sent once more.
  `CREATE TABLE IF NOT EXISTS webhook_redeliveries (
    endpoint_id   uuid           NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    event_id      uuid           NOT NULL REFERENCES partner_events (id),
    asked_at      timestamptz(3) NOT NULL,
    fence         bigint         NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    PRIMARY KEY (endpoint_id, event_id)
  )`,

  // Attempts, never changed and purged by age. Each has either a status or a trouble.
  `CREATE TABLE IF NOT EXISTS webhook_deliveries (
    position    bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id uuid           NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    event_id    uuid           NOT NULL,
    sequence    bigint         NOT NULL,
    attempt     integer        NOT NULL CHECK (attempt >= 1),
    manual      boolean        NOT NULL,
    at          timestamptz(3) NOT NULL,
    duration_ms integer        NOT NULL CHECK (duration_ms >= 0),
    status      integer,
    retry_after integer,
    body        text           CHECK (octet_length(body) <= 4096),
    trouble     text,
    -- Nothing was sent, because the event or the secret could not be read. Earlier versions see the trouble "connection".
    unread      text,
    -- The sandbox and the type of a notification; sequence then is the event's number in the sandbox's log.
    sandbox_id  text,
    type        text,
    CHECK (num_nulls(status, trouble) = 1)
  )`,
  "CREATE INDEX IF NOT EXISTS webhook_deliveries_log ON webhook_deliveries (endpoint_id, position DESC)",
  "CREATE INDEX IF NOT EXISTS webhook_deliveries_age ON webhook_deliveries (at)",
  "CREATE INDEX IF NOT EXISTS webhook_deliveries_sandbox ON webhook_deliveries (endpoint_id, event_id) WHERE sandbox_id IS NOT NULL"
]
