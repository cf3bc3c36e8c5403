/** Repositories on this machine, and the pull requests that Slipway itself keeps for them. */
export const localSource: ReadonlyArray<string> = [
  // A row stays when its repository is removed, so that the number of a pull request is never used twice.
  `CREATE TABLE IF NOT EXISTS local_repositories (
    id            integer        GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    full_name     text           NOT NULL CHECK (full_name ~ '^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$'),
    path          text           NOT NULL CHECK (path LIKE '/%'),
    -- The newest number.
    pull_requests integer        NOT NULL DEFAULT 0 CHECK (pull_requests >= 0),
    created_at    timestamptz(3) NOT NULL,
    removed_at    timestamptz(3)
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS local_repositories_name ON local_repositories (lower(full_name))",

  // head_sha, the counts and merged are as of the last look at the repository.
  `CREATE TABLE IF NOT EXISTS local_pull_requests (
    id            integer        GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id integer        NOT NULL REFERENCES local_repositories,
    number        integer        NOT NULL CHECK (number >= 1),
    title         text           NOT NULL,
    body          text           NOT NULL,
    state         text           NOT NULL CHECK (state IN ('open', 'closed')),
    draft         boolean        NOT NULL,
    merged        boolean        NOT NULL CHECK (NOT merged OR state = 'closed'),
    base_ref      text           NOT NULL,
    head_ref      text           NOT NULL,
    head_sha      text           NOT NULL CHECK (head_sha ~ '^[0-9a-f]{40}$'),
    additions     integer        NOT NULL CHECK (additions >= 0),
    deletions     integer        NOT NULL CHECK (deletions >= 0),
    changed_files integer        NOT NULL CHECK (changed_files >= 0),
    created_at    timestamptz(3) NOT NULL,
    updated_at    timestamptz(3) NOT NULL,
    UNIQUE (repository_id, number)
  )`,
  // A branch has at most one open pull request.
  `CREATE UNIQUE INDEX IF NOT EXISTS local_pull_requests_head ON local_pull_requests (repository_id, head_ref)
  WHERE state = 'open'`,

  // Comments on them. The service has one with each key, which it replaces; a repeated review finds its comments by their keys.
  `CREATE TABLE IF NOT EXISTS local_pull_comments (
    id              bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pull_request_id integer        NOT NULL REFERENCES local_pull_requests,
    key             text           CHECK (length(key) <= 200),
    -- Null: the service wrote it.
    author_id       text,
    author          text           NOT NULL,
    is_review       boolean        NOT NULL,
    body            text           NOT NULL,
    path            text,
    line            integer,
    created_at      timestamptz(3) NOT NULL,
    updated_at      timestamptz(3) NOT NULL,
    CHECK (path IS NOT NULL OR line IS NULL)
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS local_pull_comments_key ON local_pull_comments (pull_request_id, key) WHERE key IS NOT NULL",
  "CREATE INDEX IF NOT EXISTS local_pull_comments_list ON local_pull_comments (pull_request_id, id)"
]
