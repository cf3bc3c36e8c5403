import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What is known of people and their sessions, which organizations are heard, until when a key is, and the audit log. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE organizations ADD COLUMN suspended_at timestamptz(3)`
  yield* sql`
    ALTER TABLE users
      ADD COLUMN email text,
      ADD COLUMN github_login text,
      ADD COLUMN approved_at timestamptz(3)`
  yield* sql`CREATE UNIQUE INDEX users_email ON users (lower(email))`
  yield* sql`CREATE UNIQUE INDEX users_github_login ON users (lower(github_login))`
  yield* sql`ALTER TABLE memberships ADD COLUMN role text NOT NULL DEFAULT 'member' CHECK (role IN ('owner', 'member'))`
  yield* sql`UPDATE users SET approved_at = created_at FROM owner WHERE users.id = owner.user_id`
  yield* sql`
    UPDATE memberships m SET role = 'owner' FROM owner o
    WHERE m.organization_id = o.organization_id AND m.user_id = o.user_id`
  yield* sql`ALTER TABLE api_keys ADD COLUMN expires_at timestamptz(3)`

  // Digests are SHA-256, hex: the tokens themselves are nowhere. What ended is deleted.
  yield* sql`
    CREATE TABLE sessions (
      id           uuid           PRIMARY KEY,
      digest       text           NOT NULL UNIQUE CHECK (length(digest) = 64),
      user_id      text           NOT NULL REFERENCES users,
      created_at   timestamptz(3) NOT NULL,
      last_seen_at timestamptz(3) NOT NULL CHECK (last_seen_at >= created_at)
    )`
  yield* sql`CREATE INDEX sessions_user ON sessions (user_id)`
  yield* sql`
    CREATE TABLE sign_in_links (
      digest     text           PRIMARY KEY CHECK (length(digest) = 64),
      user_id    text           NOT NULL REFERENCES users,
      expires_at timestamptz(3) NOT NULL
    )`

  // Appended to in the transaction of what an entry tells.
  yield* sql`
    CREATE TABLE audit_log (
      seq      bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      at       timestamptz(3) NOT NULL,
      action   text           NOT NULL,
      subjects jsonb          NOT NULL,
      actor    jsonb          NOT NULL
    )`
  // What no bug of ours may do.
  yield* sql`
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION '% is append only', TG_TABLE_NAME;
    END $$`
  yield* sql`
    CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()`
})
