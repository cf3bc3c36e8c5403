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
