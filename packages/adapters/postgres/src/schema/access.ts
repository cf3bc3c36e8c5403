/** Organizations, people, grants, and what signs a request in. Times that the interface shows are kept to the millisecond. */
export const access: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS organizations (
    id           uuid           PRIMARY KEY,
    name         text           NOT NULL,
    created_at   timestamptz(3) NOT NULL DEFAULT now(),
    suspended_at timestamptz(3)
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS organizations_name ON organizations (name)",

  `CREATE TABLE IF NOT EXISTS users (
    id           text           PRIMARY KEY CHECK (id ~ '^user_[0-9A-HJKMNP-TV-Z]{26}$'),
    name         text           NOT NULL,
    created_at   timestamptz(3) NOT NULL DEFAULT now(),
    email        text,
    github_login text,
    approved_at  timestamptz(3),
    -- The GitHub account, for good: logins change hands, ids do not.
    github_id    text           UNIQUE CHECK (github_id <> ''),
    -- The account of OpenID Connect, for good: issuer, space, subject.
    oidc_subject text           UNIQUE CHECK (oidc_subject <> '')
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS users_email ON users (lower(email))",
  "CREATE UNIQUE INDEX IF NOT EXISTS users_github_login ON users (lower(github_login))",

  `CREATE TABLE IF NOT EXISTS memberships (
    organization_id uuid    NOT NULL REFERENCES organizations,
    user_id         text    NOT NULL REFERENCES users,
    active          boolean NOT NULL DEFAULT true,
    role            text    NOT NULL DEFAULT 'member' CHECK (role IN ('owner', 'member')),
    -- A viewer is not "active": processes of earlier versions, which know no viewers, refuse them. Null: an owner or member.
    viewer          text    CHECK (viewer IN ('active', 'removed')),
    PRIMARY KEY (organization_id, user_id)
  )`,
  "CREATE INDEX IF NOT EXISTS memberships_user ON memberships (user_id)",

  // One row: the organization and the user that the server's own commands act for.
  `CREATE TABLE IF NOT EXISTS owner (
    singleton       boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    organization_id uuid    NOT NULL REFERENCES organizations,
    user_id         text    NOT NULL REFERENCES users
  )`,

  `CREATE TABLE IF NOT EXISTS grants (
    id              uuid           PRIMARY KEY,
    name            text           NOT NULL,
    organization_id uuid           NOT NULL REFERENCES organizations,
    created_at      timestamptz(3) NOT NULL,
    revoked_at      timestamptz(3),
    -- How long data of ended sandboxes is kept. Null: as the service says.
    retention_days  integer        CHECK (retention_days BETWEEN 1 AND 3650),
    -- Patterns of branches that its sandboxes may continue. Null: the branches of sandboxes.
    branch_rules    text[]
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS grants_name ON grants (name) WHERE revoked_at IS NULL",
  "CREATE INDEX IF NOT EXISTS grants_organization ON grants (organization_id) WHERE revoked_at IS NULL",

  `CREATE TABLE IF NOT EXISTS api_keys (
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
    -- SHA-256 of the key, hex. The key itself is not stored.
    digest       text           NOT NULL UNIQUE CHECK (length(digest) = 64),
    expires_at   timestamptz(3)
  )`,

  // Digests are SHA-256, hex: tokens are not stored. A session or link that ended is deleted.
  `CREATE TABLE IF NOT EXISTS sessions (
    id           uuid           PRIMARY KEY,
    digest       text           NOT NULL UNIQUE CHECK (length(digest) = 64),
    user_id      text           NOT NULL REFERENCES users,
    created_at   timestamptz(3) NOT NULL,
    last_seen_at timestamptz(3) NOT NULL CHECK (last_seen_at >= created_at),
    -- The grant the user chose to work in. Null: the user's oldest one.
    grant_id     uuid           REFERENCES grants,
    -- Where the person signed in. Null: by a link.
    identity_provider text      CHECK (identity_provider IN ('github', 'oidc'))
  )`,
  "CREATE INDEX IF NOT EXISTS sessions_user ON sessions (user_id)",

  `CREATE TABLE IF NOT EXISTS sign_in_links (
    digest     text           PRIMARY KEY CHECK (length(digest) = 64),
    user_id    text           NOT NULL REFERENCES users,
    expires_at timestamptz(3) NOT NULL
  )`,

  // Tickets that lead a browser to a preview (docs/decisions/32). Digests are SHA-256, hex. A used or expired ticket is deleted.
  `CREATE TABLE IF NOT EXISTS preview_tickets (
    digest     text           PRIMARY KEY CHECK (length(digest) = 64),
    expires_at timestamptz(3) NOT NULL
  )`,

  // Commands that wait for a person to sign them in (docs/decisions/9). Codes are kept as SHA-256 digests.
  `CREATE TABLE IF NOT EXISTS device_logins (
    device_digest text           PRIMARY KEY CHECK (length(device_digest) = 64),
    user_digest   text           NOT NULL UNIQUE CHECK (length(user_digest) = 64),
    machine       text           NOT NULL CHECK (machine <> ''),
    address       text           NOT NULL,
    created_at    timestamptz(3) NOT NULL,
    decided_by    text           REFERENCES users,
    -- Set when the person said yes.
    grant_id      uuid           REFERENCES grants CHECK (grant_id IS NULL OR decided_by IS NOT NULL),
    poll_interval integer        NOT NULL CHECK (poll_interval > 0),
    last_asked_at timestamptz(3),
    -- Logins that wait are limited by network. Null: by address.
    network       text
  )`,
  "CREATE INDEX IF NOT EXISTS device_logins_created ON device_logins (created_at)",

  // Which tokens of CIs are exchanged for keys (docs/decisions/27).
  `CREATE TABLE IF NOT EXISTS ci_trusts (
    id         uuid           PRIMARY KEY,
    grant_id   uuid           NOT NULL REFERENCES grants,
    user_id    text           NOT NULL REFERENCES users,
    issuer     text           NOT NULL,
    audience   text           NOT NULL,
    -- Names and exact values, as texts.
    claims     jsonb          NOT NULL,
    scopes     text[]         NOT NULL,
    created_at timestamptz(3) NOT NULL
  )`,
  "CREATE INDEX IF NOT EXISTS ci_trusts_grant ON ci_trusts (grant_id)",
  "CREATE INDEX IF NOT EXISTS ci_trusts_issuer ON ci_trusts (issuer)"
]

/** Security events. */
export const auditLog: ReadonlyArray<string> = [
  // An entry is written in the transaction of what it reports.
  `CREATE TABLE IF NOT EXISTS audit_log (
    seq      bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz(3) NOT NULL,
    action   text           NOT NULL,
    subjects jsonb          NOT NULL,
    actor    jsonb          NOT NULL,
    -- The request that the entry came from. Null: no request.
    origin   jsonb
  )`,
  // Whatever bug we have, no entry is changed.
  `CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION '% is append only', TG_TABLE_NAME;
  END $$`,
  `CREATE OR REPLACE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()`
]
