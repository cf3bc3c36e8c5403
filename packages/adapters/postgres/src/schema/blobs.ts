/** Bytes that are named by their content, the files of prompts, and artifacts. */

/** Bytes that are named by their content, unless `SLIPWAY_BLOBS` keeps them elsewhere: see the port `Blobs`. */
export const blobs: ReadonlyArray<string> = [
  // Without foreign keys: the tables beside it say which blobs there are, and of which grant.
  `CREATE TABLE IF NOT EXISTS blobs (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    grant_id text    NOT NULL,
    sha256   text    NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    holder   text    NOT NULL,
    size     bigint  NOT NULL CHECK (size >= 0),
    -- False: a put is under way, or was cut.
    whole    boolean NOT NULL
  )`,
  "CREATE INDEX IF NOT EXISTS blobs_of ON blobs (grant_id, sha256, holder)",
  "CREATE UNIQUE INDEX IF NOT EXISTS blobs_whole ON blobs (grant_id, sha256, holder) WHERE whole",

  `CREATE TABLE IF NOT EXISTS blob_chunks (
    blob bigint  REFERENCES blobs ON DELETE CASCADE,
    n    integer,
    data bytea   NOT NULL,
    PRIMARY KEY (blob, n)
  )`,
  // Most are images and archives, which are compressed already.
  "ALTER TABLE blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL"
]

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
    -- All of its bytes are there. It is found only then.
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

/** Files that agents leave for people: a list for each sandbox, and the pieces with their bytes (docs/decisions/32). */
export const artifacts: ReadonlyArray<string> = [
  // Without foreign keys to sandboxes: pieces outlive their sandbox until the next purge, which deletes their bytes.
  `CREATE TABLE IF NOT EXISTS artifact_lists (
    sandbox_id text  PRIMARY KEY,
    artifacts  jsonb NOT NULL CHECK (jsonb_array_length(artifacts) <= 50),
    left_out   text
  )`,

  `CREATE TABLE IF NOT EXISTS artifact_pieces (
    holder     text           PRIMARY KEY,
    sandbox_id text           NOT NULL,
    grant_id   text           NOT NULL,
    sha256     text           NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    size       bigint         NOT NULL CHECK (size >= 0),
    at         timestamptz(3) NOT NULL,
    -- All of its bytes are there.
    stored     boolean        NOT NULL DEFAULT false,
    -- An artifact has it now.
    used       boolean        NOT NULL DEFAULT false,
    UNIQUE (sandbox_id, sha256)
  )`,
  "CREATE INDEX IF NOT EXISTS artifact_pieces_unused ON artifact_pieces (at) WHERE NOT used"
]
