/** Organizations, and the owner of this service. */
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Changed, ORGANIZATION_COLUMNS, OrganizationRow } from "../rows/MemberRows.ts"

export const selectOwner = (sql: SqlClient.SqlClient) =>
  sql<{ readonly organizationId: string; readonly userId: string }>`
          SELECT organization_id AS "organizationId", user_id AS "userId" FROM owner`

/** A second process waits here, and then finds the first one's row. */
export const lockOwner = (sql: SqlClient.SqlClient) => sql`LOCK TABLE owner IN EXCLUSIVE MODE`

export interface Owner {
  readonly organizationId: string
  readonly userId: string
}
export const insertDefaultOrganization = (sql: SqlClient.SqlClient, made: Owner) =>
  sql`INSERT INTO organizations (id, name) VALUES (${made.organizationId}, 'default')`
export const insertOwnerUser = (sql: SqlClient.SqlClient, made: Owner) =>
  sql`INSERT INTO users (id, name, approved_at) VALUES (${made.userId}, 'owner', now())`
export const insertOwnerMembership = (sql: SqlClient.SqlClient, made: Owner) =>
  sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${made.organizationId}, ${made.userId}, 'owner')`
export const insertOwner = (sql: SqlClient.SqlClient, made: Owner) =>
  sql`INSERT INTO owner (organization_id, user_id) VALUES (${made.organizationId}, ${made.userId})`

export const selectOrganizations = (sql: SqlClient.SqlClient) => {
  const organizationColumns = sql.literal(ORGANIZATION_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.Void,
    Result: OrganizationRow,
    execute: () => sql`SELECT ${organizationColumns} FROM organizations o ORDER BY created_at, id`
  })(undefined)
}

/** No row: the name is taken. */
export const insertOrganization = (
  sql: SqlClient.SqlClient,
  { createdAt, id, name }: { readonly createdAt: DateTime.Utc; readonly id: string; readonly name: string }
) =>
  sql`
          INSERT INTO organizations (id, name, created_at) VALUES (${id}, ${name}, ${DateTime.formatIso(createdAt)})
          ON CONFLICT (name) DO NOTHING RETURNING 1`

export const selectOrganizationNamed = (sql: SqlClient.SqlClient, name: string) => {
  const organizationColumns = sql.literal(ORGANIZATION_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.String,
    Result: OrganizationRow,
    execute: (name) => sql`SELECT ${organizationColumns} FROM organizations o WHERE name = ${name}`
  })(name)
}

/** Locks the organization first, to tell whether this changes anything. */
export const updateSuspended = (sql: SqlClient.SqlClient, organizationId: string, suspended: boolean, at: DateTime.Utc) => {
  const organizationColumns = sql.literal(ORGANIZATION_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.Struct({ suspended: Schema.Boolean, at: Schema.String }),
    Result: Schema.Struct({ ...OrganizationRow.fields, ...Changed }),
    execute: ({ at, suspended }) =>
      sql`
            UPDATE organizations o
            SET suspended_at = CASE WHEN ${suspended}::boolean THEN coalesce(o.suspended_at, ${at}::timestamptz) END
            FROM (SELECT id, suspended_at IS NOT NULL AS suspended FROM organizations WHERE id::text = ${organizationId} FOR UPDATE) before
            WHERE o.id = before.id RETURNING ${organizationColumns}, before.suspended <> ${suspended}::boolean AS changed`
  })({ suspended, at: DateTime.formatIso(at) })
}
