/** `CiTrustStore` on Postgres. */
import { AccessStore, GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { ciTokenExchanged, ciTrustChanged, CiTrustNotFound, CiTrustStore, TooManyCiTrusts } from "@slipway/domain/access/ports/CiTrustStore"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AccessStorePostgres from "../access-store/AccessStorePostgres.ts"
import { Instant } from "../sql/Instant.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

const Row = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  userId: Schema.String,
  issuer: Schema.String,
  audience: Schema.String,
  claims: Schema.Record(Schema.String, Schema.String),
  scopes: Schema.Array(Scope),
  createdAt: Instant
})

/** With the `AccessStore` that makes its keys. */
export const layer = Layer.effect(
  CiTrustStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const access = yield* AccessStore
    const columns = sql.literal(`t.id, t.grant_id AS "grantId", t.user_id AS "userId", t.issuer, t.audience, t.claims, t.scopes,
      t.created_at AS "createdAt"`)
    const all = (statement: Statement.Statement<object>) =>
      SqlSchema.findAll({ Request: Schema.Void, Result: Row, execute: () => statement })(undefined)

    return CiTrustStore.of({
      add: Effect.fn("CiTrustStore.add")(
        function*(trust, most) {
          const { audience, claims, createdAt, grantId, id, issuer, scopes, userId } = trust
          // Those that add wait for each other's commit, so that each counts the others.
          const held = yield* sql`SELECT 1 FROM grants WHERE id = ${grantId}::uuid AND revoked_at IS NULL FOR NO KEY UPDATE`
          if (held.length === 0) return yield* new GrantNotFound({ grant: grantId })
          const others = yield* sql`SELECT 1 FROM ci_trusts WHERE grant_id = ${grantId}::uuid LIMIT ${most}`
          if (others.length >= most) return yield* new TooManyCiTrusts({ most })
          yield* sql`
        INSERT INTO ci_trusts (id, grant_id, user_id, issuer, audience, claims, scopes, created_at)
        VALUES (${id}::uuid, ${grantId}::uuid, ${userId}, ${issuer}, ${audience}, ${JSON.stringify(claims)}::text::jsonb,
          ${textArray(scopes)}::text[], ${DateTime.formatIso(createdAt)}::timestamptz)`
          yield* audit.append([ciTrustChanged("ci_trust.added", trust, createdAt)])
        },
        sql.withTransaction,
        guard
      ),

      list: Effect.fn("CiTrustStore.list")((issuer) =>
        all(sql`
        SELECT ${columns} FROM ci_trusts t JOIN grants g ON g.id = t.grant_id AND g.revoked_at IS NULL
        WHERE ${issuer}::text IS NULL OR t.issuer = ${issuer} ORDER BY t.created_at, t.id`), guard),

      remove: Effect.fn("CiTrustStore.remove")(
        function*(id, at) {
          // Any text may be an id.
          const [trust] = yield* all(sql`DELETE FROM ci_trusts t WHERE t.id::text = ${id} RETURNING ${columns}`)
          if (trust === undefined) return yield* new CiTrustNotFound({ trust: id })
          yield* audit.append([ciTrustChanged("ci_trust.removed", trust, at)])
          return trust
        },
        sql.withTransaction,
        guard
      ),

      exchange: Effect.fn("CiTrustStore.exchange")(
        function*(trustId, key, keyDigest, mostKeys) {
          // Removing the trust and revoking the grant wait until the key is there, or come first.
          const [trust] = yield* all(sql`
        SELECT ${columns} FROM ci_trusts t JOIN grants g ON g.id = t.grant_id AND g.revoked_at IS NULL
        WHERE t.id = ${trustId}::uuid FOR SHARE`)
          if (trust === undefined) return null
          const record = yield* access.createKey(key, keyDigest, mostKeys)
          yield* audit.append([ciTokenExchanged(trust, record)])
          return record
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AccessStorePostgres.layer))
