/** `AccessStore` on Postgres. Authentication and the rate slot are one statement. */
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AccessStore, type Admission, GrantNotFound, KeyNotFound } from "@slipway/domain/access/AccessStore"
import { Scope } from "@slipway/domain/access/Principal"
import { Reads } from "./Database.ts"
import { Int8 } from "./Int8.ts"
import * as MemberStorePostgres from "./MemberStorePostgres.ts"
import { guard } from "./SqlFailure.ts"
import { textArray } from "./TextArray.ts"

const Instant = Schema.DateTimeUtcFromDate

const GrantRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  organizationId: Schema.String,
  createdAt: Instant,
  revokedAt: Schema.NullOr(Instant)
})

const KeyRow = Schema.Struct({
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

const AdmissionRow = Schema.Struct({
  keyId: Schema.String,
  grantId: Schema.String,
  organizationId: Schema.String,
  userId: Schema.String,
  scopes: Schema.Array(Scope),
  test: Schema.Boolean,
  memberActive: Schema.Boolean,
  organizationSuspended: Schema.Boolean,
  taken: Schema.Boolean,
  remaining: Schema.Int,
  resetMillis: Int8
})
const decodeAdmission = Schema.decodeUnknownSync(AdmissionRow, { disableChecks: true })

/** With the `MemberStore` it goes by. */
export const layer = Layer.effect(
  AccessStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql

    const grantColumns = sql.literal(`
      id, name, organization_id AS "organizationId", created_at AS "createdAt", revoked_at AS "revokedAt"`)
    const keyColumns = sql.literal(`
      id, grant_id AS "grantId", user_id AS "userId", label, prefix, last4, scopes, created_at AS "createdAt",
      expires_at AS "expiresAt", last_used_at AS "lastUsedAt", revoked_at AS "revokedAt"`)

    // "last used" is written at most once a minute, and nobody waits for the disk: losing it in a crash harms nobody.
    const admission = (digest: string, limit: number) =>
      reads`
        WITH found AS MATERIALIZED (
          SELECT k.id, k.grant_id, k.user_id, k.scopes, k.prefix, k.last_used_at, g.organization_id,
            coalesce(m.active, false) AS active, o.suspended_at IS NOT NULL AS suspended
          FROM api_keys k
          JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
          JOIN organizations o ON o.id = g.organization_id
          LEFT JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = k.user_id
          WHERE k.digest = ${digest} AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
        ), used AS (
          UPDATE api_keys SET last_used_at = now() FROM found
          WHERE api_keys.id = found.id
            AND (found.last_used_at IS NULL OR found.last_used_at < now() - interval '1 minute')
            AND set_config('synchronous_commit', 'off', true) = 'off'
        )
        SELECT f.id AS "keyId", f.grant_id AS "grantId", f.organization_id AS "organizationId", f.user_id AS "userId",
          f.scopes, f.prefix = 'sbx_test_' AS test, f.active AS "memberActive", f.suspended AS "organizationSuspended",
          s.taken, s.remaining, s.reset_ms AS "resetMillis"
        FROM found f CROSS JOIN LATERAL take_rate_slot(f.id, ${limit}::integer) s`

    const grantNamed = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: GrantRow,
      execute: (name) => sql`SELECT ${grantColumns} FROM grants WHERE name = ${name} AND revoked_at IS NULL`
    })

    return AccessStore.of({
      admit: (digest, limit) =>
        guard(Effect.map(admission(digest, limit), ([row]): Admission | null => {
          if (row === undefined) return null
          const { memberActive, organizationSuspended, remaining, resetMillis, scopes, taken, ...principal } = decodeAdmission(row)
          return {
            principal: { ...principal, scopes: new Set(scopes) },
            memberActive,
            organizationSuspended,
            rate: { accepted: taken, remaining, resetSeconds: Math.max(1, Math.ceil(resetMillis / 1000)) }
          }
        })),

      stillGood: (keyIds) =>
        guard(Effect.map(
          reads<{ readonly id: string }>`
            SELECT k.id FROM api_keys k
            JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
            JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL
            JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = k.user_id AND m.active
            WHERE k.id = ANY(${textArray(keyIds)}::uuid[]) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`,
          (rows) => new Set(rows.map(({ id }) => id))
        )),

      createGrant: Effect.fn("AccessStore.createGrant")(function*({ createdAt, id, name, organizationId }) {
        for (;;) {
          const made = yield* sql`
            INSERT INTO grants (id, name, organization_id, created_at)
            VALUES (${id}, ${name}, ${organizationId}, ${DateTime.formatIso(createdAt)})
            ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING 1`
          const grant = yield* grantNamed(name)
          // Revoked between the two statements: the name is free again.
          if (Option.isSome(grant)) return { grant: grant.value, made: made.length > 0 }
        }
      }, guard),

      listGrants: guard(SqlSchema.findAll({
        Request: Schema.Void,
        Result: GrantRow,
        execute: () => sql`SELECT ${grantColumns} FROM grants ORDER BY created_at DESC, id DESC`
      })(undefined)),

      revokeGrant: Effect.fn("AccessStore.revokeGrant")(function*(idOrName, at) {
        const revoked = yield* SqlSchema.findOneOption({
          Request: Schema.String,
          Result: GrantRow,
          execute: (grant) => sql`
            UPDATE grants SET revoked_at = coalesce(revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            WHERE id::text = ${grant} OR name = ${grant} AND revoked_at IS NULL RETURNING ${grantColumns}`
        })(idOrName)
        return Option.isSome(revoked) ? revoked.value : yield* new GrantNotFound({ grant: idOrName })
      }, guard),

      createKey: Effect.fn("AccessStore.createKey")(function*(key, digest) {
        yield* sql`
          INSERT INTO api_keys (id, grant_id, user_id, label, prefix, last4, scopes, created_at, expires_at, digest)
          VALUES (${key.id}, ${key.grantId}, ${key.userId}, ${key.label}, ${key.prefix}, ${key.last4},
            ${textArray(key.scopes)}::text[], ${DateTime.formatIso(key.createdAt)},
            ${key.expiresAt === null ? null : DateTime.formatIso(key.expiresAt)}, ${digest})`
        return { ...key, lastUsedAt: null, revokedAt: null }
      }, guard),

      listKeys: Effect.fn("AccessStore.listKeys")(function*(grantId) {
        return yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: KeyRow,
          execute: () => sql`
            SELECT ${keyColumns} FROM api_keys ${grantId === null ? sql`` : sql`WHERE grant_id = ${grantId}`}
            ORDER BY created_at DESC, id DESC`
        })(undefined)
      }, guard),

      revokeKey: Effect.fn("AccessStore.revokeKey")(function*(id, at) {
        const revoked = yield* SqlSchema.findOneOption({
          Request: Schema.String,
          Result: KeyRow,
          execute: (key) => sql`
            UPDATE api_keys SET revoked_at = coalesce(revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            WHERE id::text = ${key} RETURNING ${keyColumns}`
        })(id)
        return Option.isSome(revoked) ? revoked.value : yield* new KeyNotFound({ key: id })
      }, guard)
    })
  })
).pipe(Layer.provideMerge(MemberStorePostgres.layer))
