import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Who may call, the sandboxes with their log, commands and leases, and the keys of idempotent creation. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // Instants are kept to the millisecond, as the interface writes them: what is read equals what was written.
  yield* sql`
    CREATE TABLE organizations (
      id         uuid           PRIMARY KEY,
      name       text           NOT NULL,
      created_at timestamptz(3) NOT NULL DEFAULT now()
    )`
  yield* sql`
    CREATE TABLE users (
      id         text           PRIMARY KEY CHECK (id ~ '^user_[0-9A-HJKMNP-TV-Z]{26}$'),
      name       text           NOT NULL,
      created_at timestamptz(3) NOT NULL DEFAULT now()
    )`
  yield* sql`
    CREATE TABLE memberships (
      organization_id uuid    NOT NULL REFERENCES organizations,
      user_id         text    NOT NULL REFERENCES users,
      active          boolean NOT NULL DEFAULT true,
      PRIMARY KEY (organization_id, user_id)
    )`
  // One row: which organization and user the server's own commands act for.
  yield* sql`
    CREATE TABLE owner (
      singleton       boolean PRIMARY KEY DEFAULT true CHECK (singleton),
      organization_id uuid NOT NULL REFERENCES organizations,
      user_id         text NOT NULL REFERENCES users
    )`
  yield* sql`
    CREATE TABLE grants (
      id              uuid           PRIMARY KEY,
      name            text           NOT NULL,
      organization_id uuid           NOT NULL REFERENCES organizations,
      created_at      timestamptz(3) NOT NULL,
      revoked_at      timestamptz(3)
    )`
  yield* sql`CREATE UNIQUE INDEX grants_name ON grants (name) WHERE revoked_at IS NULL`
  yield* sql`
    CREATE TABLE api_keys (
      id           uuid           PRIMARY KEY,
      grant_id     uuid           NOT NULL REFERENCES grants,
      user_id      text           NOT NULL REFERENCES users,
      label        text           NOT NULL,
      prefix       text           NOT NULL,
      last4        text           NOT NULL,
      scopes       text[]         NOT NULL,
      created_at   timestamptz(3) NOT NULL,
      last_used_at timestamptz(3),
      revoked_at   timestamptz(3),
      -- SHA-256 of the key, hex. The key itself is nowhere.
      digest       text           NOT NULL UNIQUE CHECK (length(digest) = 64)
    )`

  // The acceptances of the last minute of each key: until when they count from, ascending, and how many there were in
  // all by then. What was before them is in "forgotten". Losing them in a crash costs a minute of limiting.
  yield* sql`
    CREATE UNLOGGED TABLE rate_windows (
      key_id    uuid     PRIMARY KEY,
      times     bigint[] NOT NULL DEFAULT '{}',
      counts    bigint[] NOT NULL DEFAULT '{}',
      forgotten bigint   NOT NULL DEFAULT 0
    )`
  // At most "slots" acceptances in any 60 s. A refusal writes nothing. The clock is read under the row's lock, so times
  // never decrease; where the clock was set back, remembered times are clamped to now. Above 1000 slots a row would grow
  // too large: acceptances are kept in steps of 60 ms and count from the end of their step, so a slot opens up to 60 ms late.
  yield* sql`
    CREATE FUNCTION take_rate_slot(key uuid, slots integer, OUT taken boolean, OUT remaining integer, OUT reset_ms bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
      kept    rate_windows;
      step    integer := CASE WHEN slots > 1000 THEN 60 ELSE 1 END;
      now_ms  bigint;
      stamp   bigint;
      last    integer;
      expired integer;
      total   bigint;
      live    integer;
      opens   bigint;
    BEGIN
      LOOP
        SELECT * INTO kept FROM rate_windows WHERE key_id = key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO rate_windows (key_id) VALUES (key) ON CONFLICT DO NOTHING;
      END LOOP;
      now_ms := extract(epoch FROM clock_timestamp()) * 1000;
      stamp := (now_ms + step - 1) / step * step;
      last := cardinality(kept.times);
      IF kept.times[last] > stamp THEN
        kept.times := ARRAY(SELECT least(t, stamp) FROM unnest(kept.times) AS t ORDER BY 1);
      END IF;
      total := coalesce(kept.counts[last], kept.forgotten);
      expired := CASE WHEN last = 0 THEN 0 ELSE width_bucket(now_ms - 60000, kept.times) END;
      IF expired > 0 THEN
        kept.forgotten := kept.counts[expired];
        kept.times := kept.times[expired + 1:];
        kept.counts := kept.counts[expired + 1:];
        last := last - expired;
      END IF;
      live := total - kept.forgotten;
      taken := live < slots;
      IF taken THEN
        total := total + 1;
        live := live + 1;
        IF kept.times[last] = stamp THEN
          kept.counts[last] := total;
        ELSE
          kept.times := kept.times || stamp;
          kept.counts := kept.counts || total;
        END IF;
        UPDATE rate_windows SET times = kept.times, counts = kept.counts, forgotten = kept.forgotten WHERE key_id = key;
      END IF;
      remaining := greatest(slots - live, 0);
      -- With a lower limit than before, a slot opens only when enough of the old ones have expired.
      opens := greatest(kept.forgotten, total - slots);
      reset_ms := CASE WHEN live = 0 THEN 0 ELSE kept.times[width_bucket(opens, kept.counts) + 1] + 60000 - now_ms END;
    END $$`

  // One row is the current state of a sandbox and the right to work for it: a read is one row, never a fold.
  yield* sql`
    CREATE TABLE sandboxes (
      id                 text           PRIMARY KEY CHECK (id ~ '^c_[a-z2-9]{12}$'),
      grant_id           uuid           NOT NULL REFERENCES grants,
      created_by         text           NOT NULL,
      created_at         timestamptz(3) NOT NULL,
      title              text           NOT NULL,
      repos              jsonb          NOT NULL,
      -- Lower case, for the list's filter.
      repo_names         text[]         NOT NULL,
      prompt             text           NOT NULL,
      model              text           NOT NULL,
      agent_runtime      text           NOT NULL,
      reasoning_effort   text,
      tool_approval_mode text           NOT NULL,
      metadata           jsonb          NOT NULL,

      status             text           NOT NULL CHECK (status IN
        ('queued', 'creating', 'running', 'succeeded', 'failed', 'terminating', 'terminated')),
      reason             text,
      initiator          text           NOT NULL,
      status_at          timestamptz(3) NOT NULL,
      started_at         timestamptz(3),
      completed_at       timestamptz(3),
      error              text,
      turn               jsonb,
      idle_since         timestamptz(3),
      approvals          jsonb          NOT NULL,
      publications       jsonb          NOT NULL,
      usage              jsonb          NOT NULL,
      revision           bigint         NOT NULL CHECK (revision >= 1),
      last_seq           bigint         NOT NULL CHECK (last_seq >= 1),
      -- The first time limit that has something to do.
      deadline_at        timestamptz(3),

      -- A higher fence is a newer lease; every write of a worker names its own.
      fence              bigint         NOT NULL DEFAULT 0,
      worker             text,
      -- Whose disk holds the working trees.
      machine            text,
      lease_until        timestamptz(3),
      agent_session      text
    ) WITH (fillfactor = 80)`
  yield* sql`CREATE INDEX sandboxes_list ON sandboxes (grant_id, created_at DESC, id DESC)`
  yield* sql`CREATE INDEX sandboxes_due ON sandboxes (deadline_at) WHERE deadline_at IS NOT NULL`
  yield* sql`
    CREATE INDEX sandboxes_claim ON sandboxes (created_at)
    WHERE status IN ('queued', 'creating', 'running', 'terminating')`

  // The public log. seq is given under the lock of the sandbox's row, so a reader can miss none. wire is the event's
  // JSON as every reader gets it, encoded once; events of one part replace each other.
  yield* sql`
    CREATE TABLE sandbox_events (
      sandbox_id text           NOT NULL REFERENCES sandboxes,
      seq        bigint         NOT NULL CHECK (seq >= 1),
      at         timestamptz(3) NOT NULL,
      type       text           NOT NULL,
      part_id    text,
      wire       text           NOT NULL,
      PRIMARY KEY (sandbox_id, seq)
    )`
  yield* sql`CREATE INDEX sandbox_events_part ON sandbox_events (sandbox_id, part_id, seq DESC) WHERE part_id IS NOT NULL`

  // What people and agents said, in full.
  yield* sql`
    CREATE TABLE messages (
      sandbox_id text           NOT NULL REFERENCES sandboxes,
      seq        bigint         NOT NULL,
      id         text           NOT NULL,
      turn_id    text           NOT NULL,
      role       text           NOT NULL CHECK (role IN ('user', 'assistant')),
      text       text           NOT NULL,
      created_at timestamptz(3) NOT NULL,
      PRIMARY KEY (sandbox_id, seq)
    )`

  // Every command that was accepted or rejected, found again by its natural identity.
  yield* sql`
    CREATE TABLE commands (
      id         uuid           PRIMARY KEY,
      sandbox_id text           NOT NULL REFERENCES sandboxes,
      outcome    text           NOT NULL CHECK (outcome IN ('applied', 'rejected')),
      revision   bigint         NOT NULL,
      at         timestamptz(3) NOT NULL
    )`

  // How each approval stands; both are null while it is pending.
  yield* sql`
    CREATE TABLE approvals (
      sandbox_id  text NOT NULL REFERENCES sandboxes,
      approval_id text NOT NULL,
      outcome     text CHECK (outcome IN ('approved', 'denied')),
      resolved_by text,
      PRIMARY KEY (sandbox_id, approval_id),
      CHECK ((outcome IS NULL) = (resolved_by IS NULL))
    )`

  // What all processes of one service must share and nobody else may know. Drawn on first use.
  yield* sql`
    CREATE TABLE secrets (
      name  text PRIMARY KEY,
      value text NOT NULL
    )`

  // Written in the transaction of what the key accounts for: there is no state "in progress".
  yield* sql`
    CREATE TABLE idempotency_keys (
      grant_id    uuid           NOT NULL REFERENCES grants,
      route       text           NOT NULL,
      key         text           NOT NULL,
      fingerprint text           NOT NULL,
      sandbox_id  text           NOT NULL,
      -- What a message's key accounts for.
      command_id  uuid,
      created_at  timestamptz(3) NOT NULL DEFAULT now(),
      PRIMARY KEY (grant_id, route, key)
    )`
})
