/** Memberships: by organization and user. */
import { Role } from "@slipway/domain/access/schema/User"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Changed, MemberRow, USER_COLUMNS } from "../rows/MemberRows.ts"

export const selectMembers = (sql: SqlClient.SqlClient, organizationId: string) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.String,
    Result: MemberRow,
    execute: (organization) =>
      sql`
            SELECT ${userColumns}, m.role, m.active FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.organization_id::text = ${organization} ORDER BY u.created_at, u.id`
  })(organizationId)
}

/** A member that was removed is active again. */
export const saveMember = (sql: SqlClient.SqlClient, organizationId: string, userId: string, role: typeof Role.Type) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findOne({
    Request: Role,
    Result: MemberRow,
    execute: (role) =>
      sql`
            WITH added AS (
              INSERT INTO memberships (organization_id, user_id, role) VALUES (${organizationId}, ${userId}, ${role})
              ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role, active = true RETURNING *
            )
            SELECT ${userColumns}, added.role, added.active FROM added JOIN users u ON u.id = added.user_id`
  })(role)
}

/** The row stays, inactive. Locks it first, to tell whether this changes anything. */
export const updateInactive = (sql: SqlClient.SqlClient, organizationId: string, userId: string) => {
  const userColumns = sql.literal(USER_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Schema.Struct({ ...MemberRow.fields, ...Changed }),
    execute: (user) =>
      sql`
            UPDATE memberships m SET active = false
            FROM users u, (
              SELECT organization_id, user_id, active FROM memberships
              WHERE organization_id::text = ${organizationId} AND user_id = ${user} FOR UPDATE
            ) before
            WHERE m.organization_id = before.organization_id AND m.user_id = before.user_id AND u.id = m.user_id
            RETURNING ${userColumns}, m.role, m.active, before.active AS changed`
  })(userId)
}
