/** Rows of organizations, users and members. */
import type { Member } from "@slipway/domain/access/rules/User"
import { Role } from "@slipway/domain/access/schema/User"
import { Schema } from "effect"
import { Instant } from "../../sql/Instant.ts"

export const OrganizationRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  createdAt: Instant,
  suspendedAt: Schema.NullOr(Instant)
})

/** Its columns, of the table as `o`. */
export const ORGANIZATION_COLUMNS = `o.id, o.name, o.created_at AS "createdAt", o.suspended_at AS "suspendedAt"`

export const UserRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  email: Schema.NullOr(Schema.String),
  githubLogin: Schema.NullOr(Schema.String),
  createdAt: Instant,
  approvedAt: Schema.NullOr(Instant)
})

/** Its columns, of the table as `u`. */
export const USER_COLUMNS = `
      u.id, u.name, u.email, u.github_login AS "githubLogin", u.created_at AS "createdAt", u.approved_at AS "approvedAt"`

export const BoundUserRow = Schema.Struct({
  ...UserRow.fields,
  githubId: Schema.NullOr(Schema.String),
  oidcSubject: Schema.NullOr(Schema.String)
})

export const MemberRow = Schema.Struct({ ...UserRow.fields, role: Role, active: Schema.Boolean })

/** Whether the membership `m` works, and its role: viewers have a column of their own. */
export const MEMBER_ACTIVE = `(m.active OR coalesce(m.viewer = 'active', false))`
export const MEMBER_ROLE = `CASE WHEN NOT m.active AND m.viewer IS NOT NULL THEN 'viewer' ELSE m.role END`

export const memberOf = ({ active, role, ...user }: typeof MemberRow.Type): Member => ({ user, role, active })

/** Whether an update changed anything, or repeated an earlier one. */
export const Changed = { changed: Schema.Boolean }
