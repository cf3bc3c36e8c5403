import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Organizations by name, the grant a session works in, and the request that an entry of the audit log came from. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE UNIQUE INDEX organizations_name ON organizations (name)`
  // Null until its user chooses one: the oldest that the user has.
  yield* sql`ALTER TABLE sessions ADD COLUMN grant_id uuid REFERENCES grants`
  yield* sql`CREATE INDEX memberships_user ON memberships (user_id)`
  yield* sql`CREATE INDEX grants_organization ON grants (organization_id) WHERE revoked_at IS NULL`
  // Null: it was no request.
  yield* sql`ALTER TABLE audit_log ADD COLUMN origin jsonb`
})
