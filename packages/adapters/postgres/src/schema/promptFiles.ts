/** Files of prompts, and the sandboxes that use them. Their bytes are elsewhere (docs/decisions/21). */
export const promptFiles: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS prompt_files (
    id         text           PRIMARY KEY CHECK (id ~ '^file_[a-z2-9]{12}$'),
    grant_id   uuid           NOT NULL REFERENCES grants,
    name       text           NOT NULL,
    media_type text           NOT NULL,
    size       bigint         NOT NULL CHECK (size >= 0),
    sha256     text           NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at timestamptz(3) NOT NULL,
    -- All of its bytes are there. Before that nobody finds it.
    stored     boolean        NOT NULL DEFAULT false,
    -- A sandbox uses it, or did.
    used       boolean        NOT NULL DEFAULT false
  )`,
  "CREATE INDEX IF NOT EXISTS prompt_files_unused ON prompt_files (grant_id, created_at) WHERE NOT used",
  "CREATE INDEX IF NOT EXISTS prompt_files_age ON prompt_files (created_at)",

  // A use is written before its sandbox, and outlives it until the next purge.
  `CREATE TABLE IF NOT EXISTS prompt_file_uses (
    sandbox_id text        NOT NULL,
    file_id    text        NOT NULL REFERENCES prompt_files,
    position   integer     NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (sandbox_id, file_id)
  )`,
  "CREATE INDEX IF NOT EXISTS prompt_file_uses_file ON prompt_file_uses (file_id)"
]
