import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Where partners are told of the events of their feeds, how far each endpoint is, and what came of each attempt. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE webhook_endpoints (
      id              uuid           PRIMARY KEY,
      grant_id        uuid           NOT NULL REFERENCES grants,
      url             text           NOT NULL,
      -- Null: every type.
      types           text[]         CHECK (cardinality(types) > 0),
      -- [{value, until}], the current one first. They sign, so a digest would not do.
      secrets         jsonb          NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      -- The number in the feed of the last event that is behind it.
      cursor          bigint         NOT NULL CHECK (cursor >= 0),
      failures        integer        NOT NULL DEFAULT 0 CHECK (failures >= 0),
      due_at          timestamptz(3) NOT NULL,
      disabled_at     timestamptz(3),
      disabled_reason text           CHECK (disabled_reason IN ('gone', 'retries_exhausted')),
      -- Who may make an attempt now: the worker that was given this fence, until then.
      fence           bigint         NOT NULL DEFAULT 0,
      claimed_until   timestamptz,
      CHECK (num_nulls(disabled_at, disabled_reason) IN (0, 2))
    )`
  yield* sql`CREATE INDEX webhook_endpoints_list ON webhook_endpoints (grant_id, created_at, id)`
  yield* sql`CREATE INDEX webhook_endpoints_due ON webhook_endpoints (due_at) WHERE disabled_at IS NULL`

  // What somebody asked to be sent once more.
  yield* sql`
    CREATE TABLE webhook_redeliveries (
      endpoint_id   uuid           NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
      event_id      uuid           NOT NULL REFERENCES partner_events (id),
      asked_at      timestamptz(3) NOT NULL,
      fence         bigint         NOT NULL DEFAULT 0,
      claimed_until timestamptz,
      PRIMARY KEY (endpoint_id, event_id)
    )`

  // Only added to, until it is purged. Either a status or a trouble.
  yield* sql`
    CREATE TABLE webhook_deliveries (
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
      CHECK (num_nulls(status, trouble) = 1)
    )`
  yield* sql`CREATE INDEX webhook_deliveries_log ON webhook_deliveries (endpoint_id, position DESC)`
  yield* sql`CREATE INDEX webhook_deliveries_age ON webhook_deliveries (at)`
})
