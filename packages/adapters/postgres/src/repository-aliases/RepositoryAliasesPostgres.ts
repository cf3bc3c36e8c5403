/** `RepositoryAliases` on Postgres. Each change is one transaction with its entry in the audit log. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { aliasChanged, AliasRefused, MAX_ALIASES, RepositoryAliases } from "@slipway/domain/source/ports/RepositoryAliases"
import { RepositoryAlias } from "@slipway/domain/source/schema/RepositoryAlias"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { guard } from "../sql/SqlFailure.ts"

export const layer = Layer.effect(
  RepositoryAliases,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    const all = (statement: Statement.Statement<object>) =>
      SqlSchema.findAll({ Request: Schema.Void, Result: RepositoryAlias, execute: () => statement })(undefined)
    const first = (statement: Statement.Statement<object>) => Effect.map(all(statement), ([alias]) => alias ?? null)
    const find = (name: string) => first(sql`SELECT name, host, path FROM repository_aliases WHERE lower(name) = lower(${name})`)
    const at = (host: string, path: string) =>
      first(sql`SELECT name, host, path FROM repository_aliases WHERE lower(host) = lower(${host}) AND lower(path) = lower(${path})`)

    return RepositoryAliases.of({
      set: Effect.fn("RepositoryAliases.set")(
        function*(alias, when) {
          const { host, name, path } = alias
          // Changes wait for each other, so that each sees the others. Reads go on.
          yield* sql`LOCK TABLE repository_aliases IN SHARE ROW EXCLUSIVE MODE`
          const holder = yield* at(host, path)
          if (holder !== null && holder.name.toLowerCase() !== name.toLowerCase()) {
            return yield* new AliasRefused({ reason: "path", name: holder.name })
          }
          const before = yield* find(name)
          if (before === null && (yield* sql`SELECT 1 FROM repository_aliases LIMIT ${MAX_ALIASES}`).length >= MAX_ALIASES) {
            return yield* new AliasRefused({ reason: "limit", name: null })
          }
          if (before?.name === name && before.host === host && before.path === path) return
          yield* sql`
            INSERT INTO repository_aliases (name, host, path, set_at)
            VALUES (${name}, ${host}, ${path}, ${DateTime.formatIso(when)}::timestamptz)
            ON CONFLICT (lower(name)) DO UPDATE
            SET name = excluded.name, host = excluded.host, path = excluded.path, set_at = excluded.set_at`
          yield* audit.append([aliasChanged("repository_alias.set", alias, when)])
        },
        sql.withTransaction,
        guard
      ),
      remove: Effect.fn("RepositoryAliases.remove")(
        function*(name, when) {
          const alias = yield* first(sql`DELETE FROM repository_aliases WHERE lower(name) = lower(${name}) RETURNING name, host, path`)
          if (alias === null) return false
          yield* audit.append([aliasChanged("repository_alias.removed", alias, when)])
          return true
        },
        sql.withTransaction,
        guard
      ),
      find: (name) => guard(find(name)),
      at: (host, path) => guard(at(host, path)),
      list: guard(all(sql`SELECT name, host, path FROM repository_aliases ORDER BY lower(name) COLLATE "C"`))
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
