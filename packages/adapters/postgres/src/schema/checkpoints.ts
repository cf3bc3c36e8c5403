/** Checkpoints (docs/decisions/16). */
export const checkpoints: ReadonlyArray<string> = [
  // The bytes that one put stored, with the lease that it stored them under.
  `CREATE TABLE IF NOT EXISTS checkpoint_contents (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sandbox_id text        NOT NULL REFERENCES sandboxes,
    checkpoint integer     NOT NULL CHECK (checkpoint > 0),
    fence      bigint      NOT NULL,
    place      text        NOT NULL CHECK (place IN ('database', 'folder', 'blobs')),
    -- Bytes as they were put. Null: the put is under way, or failed.
    size       bigint,
    -- Bytes as they are stored, compressed.
    bytes      bigint,
    -- Whether a row of checkpoints makes it visible: kept by a trigger.
    seen       boolean     NOT NULL DEFAULT false,
    -- Later than -infinity: its bytes were removed, and are removed again then.
    due_at     timestamptz NOT NULL DEFAULT '-infinity',
    -- The number of changes in each repository, for lists of sandboxes.
    changes    jsonb,
    CHECK ((size IS NULL) = (bytes IS NULL))
  )`,
  // Databases of earlier versions know two places.
  `ALTER TABLE checkpoint_contents DROP CONSTRAINT IF EXISTS checkpoint_contents_place_check,
    ADD CONSTRAINT checkpoint_contents_place_check CHECK (place IN ('database', 'folder', 'blobs'))`,
  "CREATE INDEX IF NOT EXISTS checkpoint_contents_of ON checkpoint_contents (sandbox_id, checkpoint, fence, id)",
  // Few: puts under way, and bytes that are to be removed.
  "CREATE INDEX IF NOT EXISTS checkpoint_contents_unseen ON checkpoint_contents (place, due_at) WHERE NOT seen",

  `CREATE TABLE IF NOT EXISTS checkpoint_chunks (
    content bigint REFERENCES checkpoint_contents ON DELETE CASCADE,
    n       integer,
    data    bytea NOT NULL,
    PRIMARY KEY (content, n)
  )`,
  // Compressed already: Postgres need not try.
  "ALTER TABLE checkpoint_chunks ALTER COLUMN data SET STORAGE EXTERNAL",

  // The blobs of a content: a row comes before its blob, and goes after it.
  `CREATE TABLE IF NOT EXISTS checkpoint_blobs (
    content bigint  REFERENCES checkpoint_contents ON DELETE CASCADE,
    n       integer,
    sha256  text    NOT NULL,
    size    bigint  NOT NULL,
    PRIMARY KEY (content, n)
  )`,

  // A row makes contents visible, and is written with its event.
  `CREATE TABLE IF NOT EXISTS checkpoints (
    sandbox_id text        REFERENCES sandboxes,
    checkpoint integer,
    content    bigint      NOT NULL UNIQUE REFERENCES checkpoint_contents,
    turn_id    text,
    created_at timestamptz NOT NULL,
    bytes      bigint      NOT NULL,
    repos      jsonb       NOT NULL,
    PRIMARY KEY (sandbox_id, checkpoint)
  )`,
  `CREATE OR REPLACE FUNCTION keep_seen() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE SCHEMA.checkpoint_contents SET seen = (TG_OP = 'INSERT')
    WHERE id = CASE TG_OP WHEN 'INSERT' THEN NEW.content ELSE OLD.content END;
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER checkpoints_seen AFTER INSERT OR DELETE ON checkpoints FOR EACH ROW EXECUTE FUNCTION keep_seen()`,

  // Sandboxes that may have checkpoints to prune: found without a look at those that stay.
  `CREATE TABLE IF NOT EXISTS checkpoint_marks (
    sandbox_id text        PRIMARY KEY REFERENCES sandboxes,
    -- -infinity: look at once. Else the time of the sandbox's end: look once that is long ago.
    due_at     timestamptz NOT NULL DEFAULT '-infinity'
  )`,
  "CREATE INDEX IF NOT EXISTS checkpoint_marks_due ON checkpoint_marks (due_at)"
]
