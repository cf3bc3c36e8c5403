/** `HostConnections` on Postgres. Tokens are stored encrypted, each connection for its host alone. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { connectionChanged, type HostConnection, HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"

/** The purpose that the tokens of a host are encrypted for. */
export const aboutOf = (host: string): string => `source_host_connection/${host.toLowerCase()}`

const Tokens = Schema.fromJsonString(Schema.Struct({
  accessToken: Schema.RedactedFromValue(Schema.String),
  refreshToken: Schema.NullOr(Schema.RedactedFromValue(Schema.String)),
  expiresAt: Schema.NullOr(Schema.DateTimeUtcFromString)
}))
const encode = Schema.encodeSync(Tokens)
const decode = Schema.decodeSync(Tokens)

export const layer = Layer.effect(
  HostConnections,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const key = Effect.catchTag(
      (yield* SecretsKey).given,
      "SecretsKeyUnusable",
      ({ message }) => Effect.fail(new SecretsUnusable({ problem: message }))
    )
    const save = Effect.fnUntraced(function*(host: string, connection: HostConnection) {
      const sealed = (yield* key).seal(Redacted.make(encode(connection)), aboutOf(host))
      yield* sql`
        INSERT INTO source_host_connections (host, sealed) VALUES (lower(${host}), ${sealed})
        ON CONFLICT (host) DO UPDATE SET sealed = excluded.sealed`
    })

    return HostConnections.of({
      set: Effect.fn("HostConnections.set")(
        function*(host, connection, at) {
          yield* save(host, connection)
          yield* audit.append([connectionChanged("source_host.connected", host, at)])
        },
        sql.withTransaction,
        guard
      ),
      remove: Effect.fn("HostConnections.remove")(
        function*(host, at) {
          const removed = yield* sql`DELETE FROM source_host_connections WHERE host = lower(${host}) RETURNING 1`
          if (removed.length === 0) return false
          yield* audit.append([connectionChanged("source_host.disconnected", host, at)])
          return true
        },
        sql.withTransaction,
        guard
      ),
      current: (host, by, renew) => {
        const read = Effect.fnUntraced(function*(lock: boolean) {
          const [row] = yield* sql<{ readonly sealed: string }>`
            SELECT sealed FROM source_host_connections WHERE host = lower(${host}) ${lock ? sql`FOR UPDATE` : sql``}`
          if (row === undefined) return null
          const opened = (yield* key).open(Redacted.make(row.sealed), aboutOf(host))
          if (opened === null) {
            return yield* new SecretsUnusable({
              problem: `The stored connection to ${host} cannot be decrypted: it was changed, or encrypted with a key that the key file ` +
                `no longer has. Give the file that key again, or connect again: slipway hosts sign-in ${host}`
            })
          }
          return decode(Redacted.value(opened))
        })
        const isFresh = (found: HostConnection | null) => found?.expiresAt == null || DateTime.isGreaterThanOrEqualTo(found.expiresAt, by)
        const renewed = Effect.gen(function*() {
          const found = yield* read(true)
          if (found === null || isFresh(found)) return found
          const connection = yield* renew(found)
          yield* save(host, connection)
          return connection
        }).pipe(sql.withTransaction, Effect.uninterruptible)
        return Effect.flatMap(read(false), (found) => isFresh(found) ? Effect.succeed(found) : renewed).pipe(
          Effect.withSpan("HostConnections.current"),
          guard
        )
      }
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
