import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What attribution knows, and the credits that claims bring (the rules are in `partner/Attribution.ts` of the domain).
 * Organizations and recipients are the operator's word: they may be told of before anybody here has heard of them.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE credit_claims (
      id              uuid           PRIMARY KEY,
      grant_id        uuid           NOT NULL REFERENCES grants,
      lead_id         text           NOT NULL,
      variant         text           NOT NULL,
      credit_amount   bigint         NOT NULL CHECK (credit_amount >= 1),
      created_at      timestamptz(3) NOT NULL,
      -- Null while it is pending.
      recipient_id    text,
      organization_id uuid,
      claimed_at      timestamptz(3),
      CHECK (num_nulls(recipient_id, organization_id, claimed_at) IN (0, 3))
    )`
  yield* sql`CREATE INDEX credit_claims_list ON credit_claims (created_at DESC, id DESC)`

  // The first claim that was claimed, by recipient and organization and by organization. Never updated. What a touch tells
  // is in its claim, which does not change any more.
  yield* sql`
    CREATE TABLE recipient_touches (
      organization_id uuid NOT NULL,
      recipient_id    text NOT NULL,
      claim_id        uuid NOT NULL REFERENCES credit_claims,
      PRIMARY KEY (organization_id, recipient_id)
    )`
  yield* sql`
    CREATE TABLE organization_touches (
      organization_id uuid PRIMARY KEY,
      claim_id        uuid NOT NULL REFERENCES credit_claims
    )`
  yield* sql`
    CREATE TABLE partner_projects (
      id              text           PRIMARY KEY,
      recipient_id    text           NOT NULL,
      organization_id uuid           NOT NULL,
      repo            text           NOT NULL,
      connected_at    timestamptz(3) NOT NULL
    )`
  yield* sql`CREATE INDEX partner_projects_repo ON partner_projects (organization_id, lower(repo), connected_at, id COLLATE "C")`
  yield* sql`
    CREATE TABLE paid_invoices (
      id              text           PRIMARY KEY,
      organization_id uuid           NOT NULL,
      kind            text           NOT NULL CHECK (kind IN ('subscription_initial', 'subscription_renewal', 'other')),
      amount_minor    bigint         NOT NULL CHECK (amount_minor >= 0),
      currency        text           NOT NULL,
      paid_at         timestamptz(3) NOT NULL,
      -- Whether it is the one that could convert its organization, whoever that counted for.
      first_payment   boolean        NOT NULL DEFAULT false
    )`
  yield* sql`CREATE UNIQUE INDEX paid_invoices_first ON paid_invoices (organization_id) WHERE first_payment`

  // Only the sandboxes that started under a touch.
  yield* sql`
    CREATE TABLE partner_tasks (
      sandbox_id text PRIMARY KEY REFERENCES sandboxes,
      claim_id   uuid NOT NULL REFERENCES credit_claims,
      project_id text
    )`

  // Every movement, and what they come to. A claim gives its credits once.
  yield* sql`
    CREATE TABLE credit_balances (
      organization_id uuid   PRIMARY KEY,
      credits         bigint NOT NULL CHECK (credits >= 0)
    )`
  yield* sql`
    CREATE TABLE credit_ledger (
      claim_id        uuid           PRIMARY KEY REFERENCES credit_claims,
      organization_id uuid           NOT NULL REFERENCES credit_balances,
      credits         bigint         NOT NULL,
      at              timestamptz(3) NOT NULL
    )`
  yield* sql`CREATE INDEX credit_ledger_organization ON credit_ledger (organization_id, at DESC, claim_id DESC)`

  // Orders all facts about an organization; tasks share it among themselves. The time is read under the lock, and cut to
  // the millisecond as it is stored: rounding could put it after what follows.
  yield* sql`
    CREATE FUNCTION lock_attribution(organization uuid) RETURNS timestamptz
    LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtextextended('attribution/' || organization, 0));
      RETURN date_trunc('milliseconds', clock_timestamp());
    END $$`
  // A function, because a creation is one statement: only what is called from it sees what was committed while it waited
  // for the lock. It repeats "startTask" and "projectFor" of the domain, which the contract suite compares it with.
  yield* sql`
    CREATE FUNCTION start_task(task text, recipient text, organization uuid, repo_name text, at timestamptz, event uuid) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
      claim   credit_claims;
      project text;
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(hashtextextended('attribution/' || organization, 0));
      SELECT c.* INTO claim FROM recipient_touches t JOIN credit_claims c ON c.id = t.claim_id
      WHERE t.organization_id = organization AND t.recipient_id = recipient;
      IF NOT FOUND THEN
        RETURN;
      END IF;
      SELECT p.id INTO project FROM partner_projects p
      WHERE p.organization_id = organization AND lower(p.repo) = lower(repo_name)
      ORDER BY p.connected_at, p.id COLLATE "C" LIMIT 1;
      INSERT INTO partner_tasks (sandbox_id, claim_id, project_id) VALUES (task, claim.id, project);
      PERFORM tell_partners(jsonb_build_array(jsonb_build_object(
        'grant_id', claim.grant_id, 'id', event, 'type', 'task.started', 'natural_id', task,
        'data', jsonb_build_object(
          'claimId', claim.id, 'leadId', claim.lead_id, 'variant', claim.variant,
          'occurredAt', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'taskId', task, 'projectId', project
        ))), date_trunc('milliseconds', clock_timestamp()));
    END $$`
})
