import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Secrets of repositories: names and times as they are, values encrypted. Those of a grant are deleted when it is revoked. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE repository_secrets (
      grant_id   uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
      repo       text           NOT NULL,
      name       text           NOT NULL CHECK (name ~ '^[A-Z_][A-Z0-9_]{0,63}$'),
      sealed     text           NOT NULL CHECK (sealed LIKE 'sealed:%'),
      bytes      integer        NOT NULL CHECK (bytes BETWEEN 1 AND 65536),
      created_at timestamptz(3) NOT NULL,
      set_at     timestamptz(3) NOT NULL
    )`
  yield* sql`CREATE UNIQUE INDEX repository_secrets_key ON repository_secrets (grant_id, lower(repo), name)`
  yield* sql`COMMENT ON COLUMN repository_secrets.sealed IS 'Encrypted for this grant, repository and name alone.'`
  yield* sql`COMMENT ON COLUMN repository_secrets.bytes IS 'Of the value in UTF-8, before it was encrypted.'`
})
