/** Memberships: by organization and user. */
import { Role } from "@slipway/domain/access/schema/User"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Changed, MEMBER_ACTIVE, MEMBER_ROLE, MemberRow, USER_COLUMNS } from "../rows/MemberRows.ts"

/** The user as `u`, and the membership as `m`. */
const MEMBER_COLUMNS = `${USER_COLUMNS}, ${MEMBER_ROLE} AS role, ${MEMBER_ACTIVE} AS active`

export const selectMembers = (sql: SqlClient.SqlClient, organizationId: string) => {
  const columns = sql.literal(MEMBER_COLUMNS)
  return SqlSchema.findAll({
    Request: Schema.String,
    Result: MemberRow,
    execute: (organization) =>
      sql`
            SELECT ${columns} FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.organization_id::text = ${organization} ORDER BY u.created_at, u.id`
  })(organizationId)
}

/** A member that was removed is active again. */
export const saveMember = (sql: SqlClient.SqlClient, organizationId: string, userId: string, role: typeof Role.Type) => {
  const columns = sql.literal(MEMBER_COLUMNS)
  return SqlSchema.findOne({
    Request: Role,
    Result: MemberRow,
    execute: (role) =>
      sql`
            WITH added AS (
              INSERT INTO memberships (organization_id, user_id, role, active, viewer)
              VALUES (${organizationId}, ${userId}, ${role === "viewer" ? "member" : role}, ${role !== "viewer"},
                ${role === "viewer" ? "active" : null})
              ON CONFLICT (organization_id, user_id)
              DO UPDATE SET role = excluded.role, active = excluded.active, viewer = excluded.viewer RETURNING *
            )
            SELECT ${columns} FROM added m JOIN users u ON u.id = m.user_id`
  })(role)
}

/** The row stays, inactive. Locks it first, to tell whether this changes anything. */
export const updateInactive = (sql: SqlClient.SqlClient, organizationId: string, userId: string) => {
  const columns = sql.literal(MEMBER_COLUMNS)
  return SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Schema.Struct({ ...MemberRow.fields, ...Changed }),
    execute: (user) =>
      sql`
            UPDATE memberships m SET active = false, viewer = CASE WHEN NOT m.active AND m.viewer IS NOT NULL THEN 'removed' END
            FROM users u, (
              SELECT organization_id, user_id, ${sql.literal(MEMBER_ACTIVE)} AS active FROM memberships m
              WHERE organization_id::text = ${organizationId} AND user_id = ${user} FOR UPDATE
            ) before
            WHERE m.organization_id = before.organization_id AND m.user_id = before.user_id AND u.id = m.user_id
            RETURNING ${columns}, before.active AS changed`
  })(userId)
}
