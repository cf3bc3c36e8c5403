/** Visits, by the digest of a session. */
import { Role } from "@slipway/domain/access/schema/User"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { GRANT_COLUMNS } from "../../access-store/rows/AccessRows.ts"
import { RateSlotRow } from "../../access-store/rows/RateSlotRow.ts"
import { MEMBER_ACTIVE, MEMBER_ROLE } from "../../member-store/rows/MemberRows.ts"

export const SessionRow = Schema.Struct({
  id: Schema.String,
  userId: Schema.String,
  provider: Schema.NullOr(Schema.Literals(["github", "oidc"])),
  createdAt: Schema.DateTimeUtcFromDate,
  lastSeenAt: Schema.DateTimeUtcFromDate
})

const Place = Schema.Struct({ grantId: Schema.String, organizationId: Schema.String, role: Role, organizationSuspended: Schema.Boolean })

const GrantRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  organizationId: Schema.String,
  createdAt: Schema.DateTimeUtcFromDate,
  revokedAt: Schema.NullOr(Schema.DateTimeUtcFromDate),
  retentionDays: Schema.NullOr(Schema.Int),
  role: Role
})

export const VisitRow = Schema.Struct({
  ...SessionRow.fields,
  name: Schema.String,
  email: Schema.NullOr(Schema.String),
  githubLogin: Schema.NullOr(Schema.String),
  addedAt: Schema.DateTimeUtcFromDate,
  approvedAt: Schema.NullOr(Schema.DateTimeUtcFromDate),
  place: Schema.NullOr(Place),
  ...RateSlotRow.fields
})

/** The session, its user and a place of its own, and a slot of the rate: one statement per request, by the unique digest. */
export const findVisit = (reads: SqlClient.SqlClient) =>
  SqlSchema.findOneOption({
    Request: Schema.Struct({ digest: Schema.String, credential: Schema.Int, user: Schema.Int }),
    Result: VisitRow,
    execute: ({ credential, digest, user }) =>
      reads`
        WITH found AS MATERIALIZED (
          SELECT s.id, s.user_id, s.identity_provider, s.created_at, s.last_seen_at,
            u.name, u.email, u.github_login, u.created_at AS added_at, u.approved_at, p.place
          FROM sessions s
          JOIN users u ON u.id = s.user_id
          LEFT JOIN LATERAL (
            SELECT jsonb_build_object('grantId', g.id, 'organizationId', o.id, 'role', ${reads.literal(MEMBER_ROLE)},
              'organizationSuspended', o.suspended_at IS NOT NULL) AS place
            FROM memberships m
            JOIN organizations o ON o.id = m.organization_id
            JOIN grants g ON g.organization_id = o.id AND g.revoked_at IS NULL
            WHERE m.user_id = s.user_id AND ${reads.literal(MEMBER_ACTIVE)}
            ORDER BY g.id = s.grant_id DESC NULLS LAST, g.created_at, g.id LIMIT 1
          ) p ON true
          WHERE s.digest = ${digest}
        )
        SELECT f.id, f.user_id AS "userId", f.identity_provider AS provider, f.created_at AS "createdAt", f.last_seen_at AS "lastSeenAt",
          f.name, f.email,
          f.github_login AS "githubLogin", f.added_at AS "addedAt", f.approved_at AS "approvedAt", f.place,
          r.taken, r.remaining, r.reset_ms AS "resetMillis", r.tightest
        FROM found f CROSS JOIN LATERAL take_rate_slots(
          ARRAY[f.id, md5('sessions of ' || f.user_id)::uuid], ARRAY[${credential}::integer, ${user}::integer]) r`
  })

/** Those of the visits whose session may still be used. */
export const openVisits = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ ...SessionRow.fields, grantId: Schema.String, role: Role }),
    execute: (visits) =>
      reads`
        SELECT s.id, s.user_id AS "userId", s.identity_provider AS provider,
          s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt", g.id AS "grantId",
          ${reads.literal(MEMBER_ROLE)} AS role
        FROM jsonb_to_recordset(${visits}::jsonb) AS v("sessionId" uuid, "grantId" uuid)
        JOIN sessions s ON s.id = v."sessionId"
        JOIN users u ON u.id = s.user_id AND u.approved_at IS NOT NULL
        JOIN grants g ON g.id = v."grantId" AND g.revoked_at IS NULL
        JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL
        JOIN memberships m ON m.organization_id = o.id AND m.user_id = s.user_id AND ${reads.literal(MEMBER_ACTIVE)}`
  })

/** The grants that a user may choose. */
export const grantsOf = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: GrantRow,
    execute: (userId) =>
      reads`
        SELECT ${reads.literal(GRANT_COLUMNS)}, ${reads.literal(MEMBER_ROLE)} AS role
        FROM memberships m JOIN grants g ON g.organization_id = m.organization_id AND g.revoked_at IS NULL
        WHERE m.user_id = ${userId} AND ${reads.literal(MEMBER_ACTIVE)} ORDER BY g.created_at, g.id`
  })
