import type { RateLimits } from "@slipway/domain/access/ports/AccessStore"
import type { SqlClient } from "effect/sql"
import { MEMBER_ACTIVE, MEMBER_ROLE } from "../../member-store/rows/MemberRows.ts"
import { textArray } from "../../sql/TextArray.ts"

/** A request that asks to be admitted. */
export interface Asked {
  readonly digest: string
  readonly limits: RateLimits
}

/**
 * Authenticates requests and takes their slots of the rate, in one statement. Windows are locked before any slot is taken, those of keys
 * before those of users before those of grants, in the order of earlier versions: so no two statements wait for each other. To ask for a
 * slot of none makes and locks a window. A join does not see those which other statements make meanwhile, and locks the ones after first.
 * Each key is looked up by its digest: joined, all keys would be read where they seem to be few (a limit keeps the lookup out of a join).
 * "Last used" is written at most once a minute and without waiting for the disk: losing it in a crash does no harm.
 */
export const admissions = (reads: SqlClient.SqlClient, asked: ReadonlyArray<Asked>) => {
  const integers = (of: keyof RateLimits) => `{${asked.map(({ limits }) => limits[of]).join(",")}}`
  return reads`
        WITH found AS MATERIALIZED (
          SELECT d.n, d.credential, d."user", d."grant", k.id, k.grant_id, k.user_id, k.scopes, k.prefix, k.last_used_at, g.organization_id,
            coalesce(${reads.literal(MEMBER_ACTIVE)}, false) AS active, ${reads.literal(MEMBER_ROLE)} AS role,
             o.suspended_at IS NOT NULL AS suspended
          FROM unnest(${textArray(asked.map(({ digest }) => digest))}::text[], ${integers("credential")}::integer[],
            ${integers("user")}::integer[], ${integers("grant")}::integer[]) WITH ORDINALITY AS d(digest, credential, "user", "grant", n)
          CROSS JOIN LATERAL (SELECT * FROM api_keys WHERE digest = d.digest LIMIT 1) k
          JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
          JOIN organizations o ON o.id = g.organization_id
          LEFT JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = k.user_id
          WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
        ), used AS (
          UPDATE api_keys SET last_used_at = now() FROM found
          WHERE api_keys.id = found.id
            AND found.last_used_at < now() - interval '1 minute'
            AND set_config('synchronous_commit', 'off', true) = 'off'
        ), locked AS MATERIALIZED (
          SELECT take_rate_slots(ARRAY[d.id], '{0}') FROM (
            SELECT DISTINCT w.kind, w.id FROM found f, LATERAL (VALUES (1, f.id), (2, md5(f.user_id)::uuid), (3, f.grant_id)) w(kind, id)
            ORDER BY w.kind, w.id
          ) d
        ), ready AS MATERIALIZED (
          SELECT * FROM found WHERE (SELECT count(*) FROM locked) >= 0 ORDER BY n
        )
        SELECT f.n, f.id AS "keyId", f.grant_id AS "grantId", f.organization_id AS "organizationId", f.user_id AS "userId",
          f.scopes, f.prefix = 'sbx_test_' AS test, f.active AS "memberActive",
          coalesce(f.role, 'member') AS role, f.suspended AS "organizationSuspended",
          f.last_used_at IS NULL AS first, s.taken, s.remaining, s.reset_ms AS "resetMillis", s.tightest
        FROM ready f CROSS JOIN LATERAL take_rate_slots(
          ARRAY[f.id, md5(f.user_id)::uuid, f.grant_id], ARRAY[f.credential, f."user", f."grant"]) s`
}

/** Requests by key that may go on. */
export const selectGood = (reads: SqlClient.SqlClient, keyIds: ReadonlyArray<string>) =>
  reads<{ readonly id: string }>`
            SELECT k.id FROM api_keys k
            JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
            JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL
            JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = k.user_id
              AND ${reads.literal(MEMBER_ACTIVE)}
            WHERE k.id = ANY(${textArray(keyIds)}::uuid[]) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`

/** Exactly one of many concurrent first requests changes the row, and gets it back. */
export const markFirstUse = (sql: SqlClient.SqlClient, keyId: string) =>
  sql<{ readonly at: Date }>`
          UPDATE api_keys SET last_used_at = now() WHERE id = ${keyId} AND last_used_at IS NULL RETURNING last_used_at AS at`
