/** Repositories whose news are asked for regularly, and how far each was read. */
export const followedRepositories: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS followed_repositories (
    -- The name in lower case.
    key           text           PRIMARY KEY,
    repo          text           NOT NULL,
    -- The host's name for it now, in lower case: another one since it was renamed.
    present_name  text           NOT NULL,
    reasons       text[]         NOT NULL CHECK (cardinality(reasons) > 0),
    followed_at   timestamptz(3) NOT NULL,
    -- When the host last sent news of it by itself.
    heard_at      timestamptz(3),
    due_at        timestamptz(3) NOT NULL,
    -- What the host said last. Null: never asked.
    cursor        text           CHECK (octet_length(cursor) <= 65536),
    failures      integer        NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- The worker with this fence may ask, until claimed_until.
    fence         bigint         NOT NULL DEFAULT 0,
    claimed_until timestamptz
  )`,
  "CREATE INDEX IF NOT EXISTS followed_repositories_due ON followed_repositories (due_at)",
  "CREATE INDEX IF NOT EXISTS followed_repositories_present ON followed_repositories (present_name)"
]
