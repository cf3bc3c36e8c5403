import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Commands that wait for a person to sign them in (docs/decisions/9). */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // Codes are kept as SHA-256 digests only. `grant_id` is there when the person said yes.
  yield* sql`
    CREATE TABLE device_logins (
      device_digest   text           PRIMARY KEY CHECK (length(device_digest) = 64),
      user_digest     text           NOT NULL UNIQUE CHECK (length(user_digest) = 64),
      machine         text           NOT NULL CHECK (machine <> ''),
      address         text           NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      decided_by      text           REFERENCES users,
      grant_id        uuid           REFERENCES grants CHECK (grant_id IS NULL OR decided_by IS NOT NULL),
      poll_interval   integer        NOT NULL CHECK (poll_interval > 0),
      last_asked_at   timestamptz(3)
    )`
  yield* sql`CREATE INDEX device_logins_created ON device_logins (created_at)`
})
