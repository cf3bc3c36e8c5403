/** `AccessStore` on Postgres. Authentication and the rate slot are one statement. */
import { AccessStore, GrantNotFound, KeyNotFound, minted, type RateLimits } from "@slipway/domain/access/ports/AccessStore"
import { Acting, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MintRefused } from "@slipway/domain/access/rules/Minting"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../Database.ts"
import * as MemberStorePostgres from "../member-store/MemberStorePostgres.ts"
import * as Batches from "../sql/Batches.ts"
import { Instant } from "../sql/Instant.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"
import { RateSlotRow, slotOf } from "./RateSlotRow.ts"

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
  first: Schema.Boolean,
  ...RateSlotRow.fields
})
const decodeAdmission = Schema.decodeUnknownSync(AdmissionRow, { disableChecks: true })

/** Whether revoking ended anything, or repeated what was so. */
const Changed = { changed: Schema.Boolean }

/** A request that asks to be admitted. */
interface Asked {
  readonly digest: string
  readonly limits: RateLimits
}

/**
 * Requests that one statement admits, and statements at once: windows of busy keys take the database a millisecond each, for which the
 * others of a batch wait.
 */
const BATCH = { most: 16, underWay: 3 }

/** With the `MemberStore` it goes by and the `AuditLog` it tells. */
export const layer = Layer.effect(
  AccessStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const audit = yield* AuditLog

    const grantColumns = sql.literal(`
      g.id, g.name, g.organization_id AS "organizationId", g.created_at AS "createdAt", g.revoked_at AS "revokedAt"`)
    const keyColumns = sql.literal(`
      k.id, k.grant_id AS "grantId", k.user_id AS "userId", k.label, k.prefix, k.last4, k.scopes, k.created_at AS "createdAt",
      k.expires_at AS "expiresAt", k.last_used_at AS "lastUsedAt", k.revoked_at AS "revokedAt"`)

    /**
     * Windows are locked before any slot is taken, those of keys before those of users before those of grants, as versions before locked
     * those of one request: so no two statements wait for each other. They end in a deadlock only where both make the same windows anew.
     * Each key is looked up by its digest: joined, all keys would be read where they seem to be few (a limit keeps it from a join).
     * "Last used" is written at most once a minute, and nobody waits for the disk: losing it in a crash harms nobody.
     */
    const admissions = (asked: ReadonlyArray<Asked>) => {
      const integers = (of: keyof RateLimits) => `{${asked.map(({ limits }) => limits[of]).join(",")}}`
      return reads`
        WITH found AS MATERIALIZED (
          SELECT d.n, d.credential, d."user", d."grant", k.id, k.grant_id, k.user_id, k.scopes, k.prefix, k.last_used_at, g.organization_id,
            coalesce(m.active, false) AS active, o.suspended_at IS NOT NULL AS suspended
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
          SELECT FROM (
            SELECT DISTINCT w.kind, w.id FROM found f, LATERAL (VALUES (1, f.id), (2, md5(f.user_id)::uuid), (3, f.grant_id)) w(kind, id)
          ) d JOIN rate_windows w ON w.key_id = d.id ORDER BY d.kind, d.id FOR UPDATE OF w
        ), ready AS MATERIALIZED (
          SELECT * FROM found WHERE (SELECT count(*) FROM locked) >= 0 ORDER BY n
        )
        SELECT f.n, f.id AS "keyId", f.grant_id AS "grantId", f.organization_id AS "organizationId", f.user_id AS "userId",
          f.scopes, f.prefix = 'sbx_test_' AS test, f.active AS "memberActive", f.suspended AS "organizationSuspended",
          f.last_used_at IS NULL AS first, s.taken, s.remaining, s.reset_ms AS "resetMillis", s.tightest
        FROM ready f CROSS JOIN LATERAL take_rate_slots(
          ARRAY[f.id, md5(f.user_id)::uuid, f.grant_id], ARRAY[f.credential, f."user", f."grant"]) s`
    }

    const admit = Batches.make({
      client: reads,
      run: (asked: ReadonlyArray<Asked>) => Effect.map(admissions(asked), (rows) => Batches.placed(asked, rows, (row) => row["n"])),
      ...BATCH
    })

    // Apart, because an insert in the statement above costs every request a tenth more even when nothing is inserted
    // (measured 2026-11-22). Of many first requests one changes the row.
    const firstUse = ({ grantId, keyId }: { readonly keyId: string; readonly grantId: string }) =>
      sql.withTransaction(Effect.gen(function*() {
        const [used] = yield* sql<{ readonly at: Date }>`
          UPDATE api_keys SET last_used_at = now() WHERE id = ${keyId} AND last_used_at IS NULL RETURNING last_used_at AS at`
        if (used === undefined) return
        yield* audit.append([{ action: "key.first_used", at: DateTime.makeUnsafe(used.at), subjects: { keyId, grantId } }]).pipe(
          Effect.provideService(Acting, { _tag: "Key", keyId })
        )
      }))

    const grantNamed = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: GrantRow,
      execute: (name) => sql`SELECT ${grantColumns} FROM grants g WHERE name = ${name} AND revoked_at IS NULL`
    })

    return AccessStore.of({
      admit: Effect.fnUntraced(function*(digest, limits) {
        const row = yield* admit({ digest, limits })
        if (row === null) return null
        const { first, keyId, memberActive, organizationSuspended, scopes, ...rest } = decodeAdmission(row)
        const { grantId, organizationId, test, userId } = rest
        if (first) yield* guard(firstUse({ keyId, grantId }))
        return {
          principal: { credential: { _tag: "Key" as const, keyId }, grantId, organizationId, userId, scopes: new Set(scopes), test },
          memberActive,
          organizationSuspended,
          rate: slotOf(rest)
        }
      }),

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

      listGrants: guard(
        SqlSchema.findAll({
          Request: Schema.Void,
          Result: GrantRow,
          execute: () => sql`SELECT ${grantColumns} FROM grants g ORDER BY created_at DESC, id DESC`
        })(undefined)
      ),

      revokeGrant: Effect.fn("AccessStore.revokeGrant")(
        function*(idOrName, at) {
          const found = yield* SqlSchema.findOneOption({
            Request: Schema.String,
            Result: Schema.Struct({ ...GrantRow.fields, ...Changed }),
            execute: (grant) =>
              sql`
            UPDATE grants g SET revoked_at = coalesce(g.revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            FROM (
              SELECT id, revoked_at IS NULL AS good FROM grants
              WHERE id::text = ${grant} OR name = ${grant} AND revoked_at IS NULL FOR UPDATE
            ) before
            WHERE g.id = before.id RETURNING ${grantColumns}, before.good AS changed`
          })(idOrName)
          if (Option.isNone(found)) return yield* new GrantNotFound({ grant: idOrName })
          const { changed, ...grant } = found.value
          if (changed) {
            yield* sql`DELETE FROM repository_secrets WHERE grant_id = ${grant.id}`
            yield* sql`DELETE FROM trusted_refs WHERE grant_id = ${grant.id}`
            yield* audit.append([{ action: "grant.revoked", at, subjects: { grantId: grant.id } }])
          }
          return grant
        },
        sql.withTransaction,
        guard
      ),

      createKey: Effect.fn("AccessStore.createKey")(
        function*(key, digest, most) {
          // Whoever mints at the same time waits for this one's commit, and counts its key.
          yield* sql`SELECT 1 FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE`
          const [found] = yield* sql<{ readonly full: boolean }>`
          SELECT count(*) >= ${most}::integer AS full
          FROM api_keys k JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
          WHERE k.user_id = ${key.userId} AND k.revoked_at IS NULL
            AND (k.expires_at IS NULL OR k.expires_at > ${DateTime.formatIso(key.createdAt)}::timestamptz)`
          if (found?.full === true) return yield* new MintRefused({ because: "too_many_keys" })
          yield* sql`
          INSERT INTO api_keys (id, grant_id, user_id, label, prefix, last4, scopes, created_at, expires_at, digest)
          VALUES (${key.id}, ${key.grantId}, ${key.userId}, ${key.label}, ${key.prefix}, ${key.last4},
            ${textArray(key.scopes)}::text[], ${DateTime.formatIso(key.createdAt)},
            ${key.expiresAt === null ? null : DateTime.formatIso(key.expiresAt)}, ${digest})`
          yield* audit.append([minted(key)])
          return { ...key, lastUsedAt: null, revokedAt: null }
        },
        sql.withTransaction,
        guard
      ),

      listKeys: Effect.fn("AccessStore.listKeys")(function*(grantId) {
        return yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: KeyRow,
          execute: () =>
            sql`
            SELECT ${keyColumns} FROM api_keys k ${grantId === null ? sql`` : sql`WHERE grant_id = ${grantId}`}
            ORDER BY created_at DESC, id DESC`
        })(undefined)
      }, guard),

      revokeKey: Effect.fn("AccessStore.revokeKey")(
        function*(id, at) {
          const found = yield* SqlSchema.findOneOption({
            Request: Schema.String,
            Result: Schema.Struct({ ...KeyRow.fields, ...Changed }),
            execute: (key) =>
              sql`
            UPDATE api_keys k SET revoked_at = coalesce(k.revoked_at, ${DateTime.formatIso(at)}::timestamptz)
            FROM (SELECT id, revoked_at IS NULL AS good FROM api_keys WHERE id::text = ${key} FOR UPDATE) before
            WHERE k.id = before.id RETURNING ${keyColumns}, before.good AS changed`
          })(id)
          if (Option.isNone(found)) return yield* new KeyNotFound({ key: id })
          const { changed, ...key } = found.value
          if (changed) yield* audit.append([{ action: "key.revoked", at, subjects: { keyId: id, grantId: key.grantId } }])
          return key
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(MemberStorePostgres.layer))
