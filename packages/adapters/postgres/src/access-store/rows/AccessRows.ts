/** Rows of grants and keys. */
import { Scope } from "@slipway/domain/access/schema/Principal"
import { Role } from "@slipway/domain/access/schema/User"
import { Schema } from "effect"
import { Instant } from "../../sql/Instant.ts"
import { RateSlotRow } from "./RateSlotRow.ts"

export const GrantRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  organizationId: Schema.String,
  createdAt: Instant,
  revokedAt: Schema.NullOr(Instant),
  retentionDays: Schema.NullOr(Schema.Int)
})

/** Its columns, of the table as `g`. */
export const GRANT_COLUMNS = `
      g.id, g.name, g.organization_id AS "organizationId", g.created_at AS "createdAt", g.revoked_at AS "revokedAt",
      g.retention_days AS "retentionDays"`

export const KeyRow = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  userId: Schema.String,
  label: Schema.String,
  prefix: Schema.String,
  last4: Schema.String,
  scopes: Schema.Array(Scope),
  createdAt: Instant,
  expiresAt: Schema.NullOr(Instant),
  lastUsedAt: Schema.NullOr(Instant),
  revokedAt: Schema.NullOr(Instant)
})

/** Its columns, of the table as `k`. */
export const KEY_COLUMNS = `
      k.id, k.grant_id AS "grantId", k.user_id AS "userId", k.label, k.prefix, k.last4, k.scopes, k.created_at AS "createdAt",
      k.expires_at AS "expiresAt", k.last_used_at AS "lastUsedAt", k.revoked_at AS "revokedAt"`

const AdmissionRow = Schema.Struct({
  keyId: Schema.String,
  grantId: Schema.String,
  organizationId: Schema.String,
  userId: Schema.String,
  scopes: Schema.Array(Scope),
  test: Schema.Boolean,
  memberActive: Schema.Boolean,
  role: Role,
  organizationSuspended: Schema.Boolean,
  first: Schema.Boolean,
  ...RateSlotRow.fields
})
export const decodeAdmission = Schema.decodeUnknownSync(AdmissionRow, { disableChecks: true })

/** Whether a revocation ended anything, or repeated an earlier one. */
export const Changed = { changed: Schema.Boolean }
