import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What checkpoints hold. A row of `checkpoint_contents` is what one put stored, by the lease it stored it under; one of `checkpoints`
 * makes it visible and comes with its event.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE checkpoint_contents (
      id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      sandbox_id text NOT NULL REFERENCES sandboxes,
      checkpoint integer NOT NULL CHECK (checkpoint > 0),
      fence      bigint NOT NULL,
      place      text NOT NULL CHECK (place IN ('database', 'folder')),
      size       bigint,
      bytes      bigint,
      CHECK ((size IS NULL) = (bytes IS NULL))
    )`
  yield* sql`COMMENT ON COLUMN checkpoint_contents.size IS 'Bytes as they were put; NULL: the put is not through, or failed.'`
  yield* sql`COMMENT ON COLUMN checkpoint_contents.bytes IS 'Bytes as they are stored, compressed.'`
  yield* sql`CREATE INDEX checkpoint_contents_of ON checkpoint_contents (sandbox_id, checkpoint, fence, id)`

  yield* sql`
    CREATE TABLE checkpoint_chunks (
      content bigint REFERENCES checkpoint_contents ON DELETE CASCADE,
      n       integer,
      data    bytea NOT NULL,
      PRIMARY KEY (content, n)
    )`
  // They are compressed already.
  yield* sql`ALTER TABLE checkpoint_chunks ALTER COLUMN data SET STORAGE EXTERNAL`

  yield* sql`
    CREATE TABLE checkpoints (
      sandbox_id text REFERENCES sandboxes,
      checkpoint integer,
      content    bigint NOT NULL UNIQUE REFERENCES checkpoint_contents,
      turn_id    text,
      created_at timestamptz NOT NULL,
      bytes      bigint NOT NULL,
      repos      jsonb NOT NULL,
      PRIMARY KEY (sandbox_id, checkpoint)
    )`
  yield* sql`CREATE INDEX sandboxes_origin ON sandboxes ((origin ->> 'sandboxId')) WHERE origin IS NOT NULL`
})
