/** The feeds that partners read, and the facts behind them (docs/decisions/11). Rules: partner/rules/Attribution.ts of the domain. */
export const partner: ReadonlyArray<string> = [
  // One ordered feed for each grant. The row's lock is held from the number to the commit, so numbers become visible in their order.
  `CREATE TABLE IF NOT EXISTS partner_feeds (
    grant_id      uuid   PRIMARY KEY REFERENCES grants,
    -- The newest number.
    last_sequence bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0)
  )`,
  `CREATE TABLE IF NOT EXISTS partner_events (
    grant_id   uuid           NOT NULL REFERENCES partner_feeds,
    sequence   bigint         NOT NULL CHECK (sequence >= 1),
    id         uuid           NOT NULL UNIQUE,
    type       text           NOT NULL,
    natural_id text           NOT NULL,
    data       jsonb          NOT NULL,
    created_at timestamptz(3) NOT NULL,
    PRIMARY KEY (grant_id, sequence),
    UNIQUE (grant_id, type, natural_id)
  )`,
  // One round trip while a feed is locked. Called as the last statement of a transaction. Feeds are locked in the order of their ids, so
  // that two transactions never wait for each other. "tellings": in order, {grant_id, id, type, natural_id, data}; an event that the
  // feed has already is left out and takes no number.
  `CREATE OR REPLACE FUNCTION tell_partners(tellings jsonb, at timestamptz) RETURNS void
  LANGUAGE plpgsql AS $$
  DECLARE
    feed uuid;
  BEGIN
    FOR feed IN SELECT DISTINCT (t ->> 'grant_id')::uuid FROM jsonb_array_elements(tellings) AS t ORDER BY 1 LOOP
      INSERT INTO SCHEMA.partner_feeds (grant_id) VALUES (feed) ON CONFLICT DO NOTHING;
      PERFORM FROM SCHEMA.partner_feeds WHERE grant_id = feed FOR UPDATE;
      -- A statement of its own: it must see what was committed while the lock was waited for.
      WITH added AS (
        INSERT INTO SCHEMA.partner_events (grant_id, sequence, id, type, natural_id, data, created_at)
        SELECT feed, f.last_sequence + row_number() OVER (ORDER BY t.n), t.id, t.type, t.natural_id, t.data, at
        FROM SCHEMA.partner_feeds f, (
          SELECT DISTINCT ON (e ->> 'type', e ->> 'natural_id')
            n, (e ->> 'id')::uuid AS id, e ->> 'type' AS type, e ->> 'natural_id' AS natural_id, e -> 'data' AS data
          FROM jsonb_array_elements(tellings) WITH ORDINALITY AS x(e, n)
          WHERE (e ->> 'grant_id')::uuid = feed
          ORDER BY e ->> 'type', e ->> 'natural_id', n
        ) t
        WHERE f.grant_id = feed AND NOT EXISTS (
          SELECT FROM SCHEMA.partner_events p WHERE p.grant_id = feed AND p.type = t.type AND p.natural_id = t.natural_id)
        RETURNING 1
      )
      UPDATE SCHEMA.partner_feeds SET last_sequence = last_sequence + (SELECT count(*) FROM added) WHERE grant_id = feed;
    END LOOP;
  END $$`,

  // The first claim that a recipient made in an organization, and the first of the organization. Never updated. What a touch tells is in
  // its claim, which does not change any more.
  `CREATE TABLE IF NOT EXISTS recipient_touches (
    organization_id uuid NOT NULL,
    recipient_id    text NOT NULL,
    claim_id        uuid NOT NULL REFERENCES credit_claims,
    PRIMARY KEY (organization_id, recipient_id)
  )`,
  `CREATE TABLE IF NOT EXISTS organization_touches (
    organization_id uuid PRIMARY KEY,
    claim_id        uuid NOT NULL REFERENCES credit_claims
  )`,
  `CREATE TABLE IF NOT EXISTS partner_projects (
    id              text           PRIMARY KEY,
    recipient_id    text           NOT NULL,
    organization_id uuid           NOT NULL,
    repo            text           NOT NULL,
    connected_at    timestamptz(3) NOT NULL
  )`,
  `CREATE INDEX IF NOT EXISTS partner_projects_repo ON partner_projects (organization_id, lower(repo), connected_at, id COLLATE "C")`,
  `CREATE TABLE IF NOT EXISTS paid_invoices (
    id              text           PRIMARY KEY,
    organization_id uuid           NOT NULL,
    kind            text           NOT NULL CHECK (kind IN ('subscription_initial', 'subscription_renewal', 'other')),
    amount_minor    bigint         NOT NULL CHECK (amount_minor >= 0),
    currency        text           NOT NULL,
    paid_at         timestamptz(3) NOT NULL,
    -- Whether it is the payment that could convert its organization, whichever recipient it counted for.
    first_payment   boolean        NOT NULL DEFAULT false
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS paid_invoices_first ON paid_invoices (organization_id) WHERE first_payment",
  // Only sandboxes that started under a touch.
  `CREATE TABLE IF NOT EXISTS partner_tasks (
    sandbox_id text PRIMARY KEY REFERENCES sandboxes,
    claim_id   uuid NOT NULL REFERENCES credit_claims,
    project_id text
  )`,

  // Orders all facts about an organization; tasks share the lock among themselves. The time is read under the lock, and truncated to the
  // millisecond in which it is stored: rounding could put it after later facts.
  `CREATE OR REPLACE FUNCTION lock_attribution(organization uuid) RETURNS timestamptz
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('attribution/' || organization, 0));
    RETURN date_trunc('milliseconds', clock_timestamp());
  END $$`,
  // A function, because a creation is one statement: only what a function calls sees what was committed while it waited for the lock. It
  // repeats "startTask" and "projectFor" of the domain; the contract suite compares them.
  `CREATE OR REPLACE FUNCTION start_task(
    task text, recipient text, organization uuid, repo_name text, at timestamptz, event uuid
  ) RETURNS void
  LANGUAGE plpgsql AS $$
  DECLARE
    claim   SCHEMA.credit_claims;
    project text;
  BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('attribution/' || organization, 0));
    SELECT c.* INTO claim FROM SCHEMA.recipient_touches t JOIN SCHEMA.credit_claims c ON c.id = t.claim_id
    WHERE t.organization_id = organization AND t.recipient_id = recipient;
    IF NOT FOUND THEN
      RETURN;
    END IF;
    SELECT p.id INTO project FROM SCHEMA.partner_projects p
    WHERE p.organization_id = organization AND lower(p.repo) = lower(repo_name)
    ORDER BY p.connected_at, p.id COLLATE "C" LIMIT 1;
    INSERT INTO SCHEMA.partner_tasks (sandbox_id, claim_id, project_id) VALUES (task, claim.id, project);
    PERFORM SCHEMA.tell_partners(jsonb_build_array(jsonb_build_object(
      'grant_id', claim.grant_id, 'id', event, 'type', 'task.started', 'natural_id', task,
      'data', jsonb_build_object(
        'claimId', claim.id, 'leadId', claim.lead_id, 'variant', claim.variant,
        'occurredAt', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'taskId', task, 'projectId', project
      ))), date_trunc('milliseconds', clock_timestamp()));
  END $$`
]
