/** `SecretStore` on Postgres. Values are stored encrypted, each for its grant, repository and name alone. */
import { GrantNotFound } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import {
  MAX_SECRETS,
  MAX_SECRETS_OF_GRANT,
  MAX_VALUES_BYTES,
  type SecretKey,
  SecretNotFound,
  SecretsMissing,
  SecretStore,
  SecretsUnusable,
  refTold,
  told,
  TooManySecrets,
  TooManyTrustedRefs,
  TrustedRefNotFound
} from "@slipway/domain/environment/ports/SecretStore"
import { MAX_TRUSTED_REFS } from "@slipway/domain/environment/rules/SetupTrust"
import { utf8Length } from "@slipway/domain/text/Utf8"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"
import { type Key, SecretsKey } from "./SecretsKey.ts"

const Record = Schema.Struct({ repo: Schema.String, name: Schema.String, createdAt: Instant, setAt: Instant })
const COLUMNS = `s.repo, s.name, s.created_at AS "createdAt", s.set_at AS "setAt"`

const RefRecord = Schema.Struct({ repo: Schema.String, ref: Schema.String, listedAt: Instant })
const REF_COLUMNS = `r.repo, r.ref, r.listed_at AS "listedAt"`

const Sealed = Schema.RedactedFromValue(Schema.String)

/** Of a name and a UUID neither has a slash: no two secrets have the same. */
const aboutOf = ({ grantId, name, repo }: SecretKey) => `repository/${grantId}/${repo.toLowerCase()}/${name}`

const iso = DateTime.formatIso

/** Encrypts with the first key what another one encrypted. What no key opens stays as it is. Safe to do twice, and beside others. */
export const reseal = Effect.fn("SecretStorePostgres.reseal")(
  function*(key: Key) {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* SqlSchema.findAll({
      Request: Schema.Void,
      Result: Schema.Struct({ grantId: Schema.String, repo: Schema.String, name: Schema.String, sealed: Sealed }),
      execute: () =>
        sql`
        SELECT grant_id AS "grantId", repo, name, sealed FROM repository_secrets
        ORDER BY grant_id, lower(repo), name FOR NO KEY UPDATE`
    })(undefined)
    for (const { grantId, name, repo, sealed } of rows) {
      const about = aboutOf({ grantId, repo, name })
      if (key.isCurrent(sealed, about)) continue
      const value = key.open(sealed, about)
      if (value === null) continue
      yield* sql`
        UPDATE repository_secrets SET sealed = ${key.seal(value, about)}
        WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name}`
    }
  },
  (self) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)),
  guard
)

export const layer = Layer.effect(
  SecretStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const secretsKey = yield* SecretsKey
    const key = Effect.catchTag(
      secretsKey.given,
      "SecretsKeyUnusable",
      ({ message }) => Effect.fail(new SecretsUnusable({ problem: message }))
    )
    const columns = sql.literal(COLUMNS)
    const refColumns = sql.literal(REF_COLUMNS)

    /** Whoever revokes the grant waits for this one's commit, and takes along what it stores. */
    const requireGrant = Effect.fnUntraced(function*(grantId: string) {
      const good = yield* sql`SELECT FROM grants WHERE id = ${grantId} AND revoked_at IS NULL FOR KEY SHARE`
      if (good.length === 0) return yield* new GrantNotFound({ grant: grantId })
      yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${`secrets/${grantId}`}, 0))`
    })
    const refsOf = (grantId: string, repo: string | null) =>
      SqlSchema.findAll({
        Request: Schema.Void,
        Result: RefRecord,
        execute: () =>
          sql`
          SELECT ${refColumns} FROM trusted_refs r
          WHERE grant_id = ${grantId} ${repo === null ? sql`` : sql`AND lower(repo) = lower(${repo})`}
          ORDER BY lower(repo) COLLATE "C", ref COLLATE "C"`
      })(undefined)

    const others = SqlSchema.findOne({
      Request: Schema.Struct({ grantId: Schema.String, repo: Schema.String, name: Schema.String }),
      Result: Schema.Struct({ ofGrant: Int8, count: Int8, bytes: Int8 }),
      execute: ({ grantId, name, repo }) =>
        sql`
        SELECT count(*) AS "ofGrant", count(*) FILTER (WHERE lower(repo) = lower(${repo})) AS count,
          coalesce(sum(bytes) FILTER (WHERE lower(repo) = lower(${repo})), 0)::bigint AS bytes
        FROM repository_secrets WHERE grant_id = ${grantId} AND NOT (lower(repo) = lower(${repo}) AND name = ${name})`
    })
    const stored = SqlSchema.findOne({
      Request: Schema.Struct({
        grantId: Schema.String,
        repo: Schema.String,
        name: Schema.String,
        sealed: Schema.String,
        bytes: Schema.Int,
        at: Schema.String
      }),
      Result: Record,
      execute: ({ at, bytes, grantId, name, repo, sealed }) =>
        sql`
        INSERT INTO repository_secrets AS s (grant_id, repo, name, sealed, bytes, created_at, set_at)
        VALUES (${grantId}, ${repo}, ${name}, ${sealed}, ${bytes}, ${at}, ${at})
        ON CONFLICT (grant_id, lower(repo), name) DO UPDATE
          SET repo = excluded.repo, sealed = excluded.sealed, bytes = excluded.bytes, set_at = excluded.set_at
        RETURNING ${columns}`
    })

    return SecretStore.of({
      set: Effect.fn("SecretStore.set")(
        function*(secret, value, at) {
          const { grantId, name, repo } = secret
          yield* requireGrant(grantId)
          const bytes = utf8Length(Redacted.value(value))
          const held = yield* others(secret)
          if (held.count >= MAX_SECRETS || held.bytes + bytes > MAX_VALUES_BYTES || held.ofGrant >= MAX_SECRETS_OF_GRANT) {
            return yield* new TooManySecrets()
          }
          const sealed = (yield* key).seal(value, aboutOf(secret))
          const record = yield* stored({ grantId, repo, name, sealed, bytes, at: iso(at) })
          yield* audit.append([told("secret.set", secret, at)])
          return record
        },
        Effect.catchTag("NoSuchElementError", Effect.die),
        sql.withTransaction,
        guard
      ),

      list: Effect.fn("SecretStore.list")(function*(grantId, repo) {
        return yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: Record,
          execute: () =>
            sql`
            SELECT ${columns} FROM repository_secrets s
            WHERE grant_id = ${grantId} ${repo === null ? sql`` : sql`AND lower(repo) = lower(${repo})`}
            ORDER BY lower(repo) COLLATE "C", name COLLATE "C"`
        })(undefined)
      }, guard),

      remove: Effect.fn("SecretStore.remove")(
        function*(secret, at) {
          const { grantId, name, repo } = secret
          const gone = yield* sql`
          DELETE FROM repository_secrets WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name} RETURNING 1`
          if (gone.length === 0) return yield* new SecretNotFound()
          yield* audit.append([told("secret.removed", secret, at)])
        },
        sql.withTransaction,
        guard
      ),

      reveal: Effect.fn("SecretStore.reveal")(function*({ grantId, repo }, names) {
        const rows = yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: Schema.Struct({ name: Schema.String, sealed: Sealed }),
          execute: () =>
            sql`
            SELECT name, sealed FROM repository_secrets
            WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ANY(${textArray(names)}::text[])`
        })(undefined)
        const missing = names.filter((name) => !rows.some((row) => row.name === name))
        if (missing.length > 0) return yield* new SecretsMissing({ repo, names: missing })
        const values = new Map<string, Redacted.Redacted>()
        if (rows.length === 0) return values
        const opening = yield* key
        for (const { name, sealed } of rows) {
          const value = opening.open(sealed, aboutOf({ grantId, repo, name }))
          if (value === null) {
            return yield* new SecretsUnusable({
              problem:
                `The stored secret ${name} of ${repo} cannot be decrypted: it was changed, or encrypted with a key that the key file ` +
                "no longer has. Give the file that key again, or set the secret again."
            })
          }
          values.set(name, value)
        }
        return values
      }, guard),

      trustRef: Effect.fn("SecretStore.trustRef")(
        function*(of, ref, at) {
          const { grantId, repo } = of
          yield* requireGrant(grantId)
          const known = yield* refsOf(grantId, repo)
          const before = known.find((one) => one.ref === ref)
          if (before !== undefined) return before
          if (known.length >= MAX_TRUSTED_REFS) return yield* new TooManyTrustedRefs()
          yield* sql`INSERT INTO trusted_refs ${sql.insert({ grant_id: grantId, repo, ref, listed_at: iso(at) })}`
          yield* audit.append([refTold("trusted_ref.listed", of, ref, at)])
          return { repo, ref, listedAt: at }
        },
        sql.withTransaction,
        guard
      ),

      trustedRefs: Effect.fn("SecretStore.trustedRefs")(refsOf, guard),

      distrustRef: Effect.fn("SecretStore.distrustRef")(
        function*(of, ref, at) {
          const gone = yield* sql`
          DELETE FROM trusted_refs WHERE grant_id = ${of.grantId} AND lower(repo) = lower(${of.repo}) AND ref = ${ref} RETURNING 1`
          if (gone.length === 0) return yield* new TrustedRefNotFound()
          yield* audit.append([refTold("trusted_ref.removed", of, ref, at)])
        },
        sql.withTransaction,
        guard
      )
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
