/**
 * Credits of organizations. The rules are in partner/rules/Credits.ts of the domain. "credit_balances" counts what claims brought,
 * in credits; "credit_spending" what models took, in micros, millionths of a credit. The difference is left.
 */
export const credits: ReadonlyArray<string> = [
  // The organization and the recipient are named by the operator: the service may not have heard of them yet.
  `CREATE TABLE IF NOT EXISTS credit_claims (
    id              uuid           PRIMARY KEY,
    grant_id        uuid           NOT NULL REFERENCES grants,
    lead_id         text           NOT NULL,
    variant         text           NOT NULL,
    credit_amount   bigint         NOT NULL CHECK (credit_amount >= 1),
    created_at      timestamptz(3) NOT NULL,
    -- Null while the claim is pending.
    recipient_id    text,
    organization_id uuid,
    claimed_at      timestamptz(3),
    CHECK (num_nulls(recipient_id, organization_id, claimed_at) IN (0, 3))
  )`,
  "CREATE INDEX IF NOT EXISTS credit_claims_list ON credit_claims (created_at DESC, id DESC)",

  `CREATE TABLE IF NOT EXISTS credit_balances (
    organization_id uuid   PRIMARY KEY,
    credits         bigint NOT NULL CHECK (credits >= 0)
  )`,
  // Every movement of a balance. A claim gives its credits once.
  `CREATE TABLE IF NOT EXISTS credit_ledger (
    claim_id        uuid           PRIMARY KEY REFERENCES credit_claims,
    organization_id uuid           NOT NULL REFERENCES credit_balances,
    credits         bigint         NOT NULL,
    at              timestamptz(3) NOT NULL
  )`,
  "CREATE INDEX IF NOT EXISTS credit_ledger_organization ON credit_ledger (organization_id, at DESC, claim_id DESC)",

  // The row's lock orders all reservations of an organization. A table of its own, so that a claim waits for no request.
  `CREATE TABLE IF NOT EXISTS credit_spending (
    organization_id uuid   PRIMARY KEY REFERENCES organizations,
    spent           bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved        bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    wanted          bigint NOT NULL DEFAULT 0 CHECK (wanted >= 0)
  ) WITH (fillfactor = 70)`,
  // A row for each request that took credits, never changed. One row for each sandbox would be changed, and would hide a double charge.
  `CREATE TABLE IF NOT EXISTS credit_charges (
    call_id         uuid           PRIMARY KEY,
    organization_id uuid           NOT NULL REFERENCES credit_spending,
    sandbox_id      text           NOT NULL REFERENCES sandbox_spending,
    micros          bigint         NOT NULL CHECK (micros > 0),
    at              timestamptz(3) NOT NULL DEFAULT now()
  )`,
  "CREATE INDEX IF NOT EXISTS credit_charges_organization ON credit_charges (organization_id, sandbox_id)"
]
