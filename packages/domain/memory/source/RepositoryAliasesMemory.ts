/** `RepositoryAliases` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { aliasChanged, AliasRefused, MAX_ALIASES, RepositoryAliases } from "../../src/source/ports/RepositoryAliases.ts"
import type { RepositoryAlias } from "../../src/source/schema/RepositoryAlias.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

/** Process-local. */
export const layer = Layer.effect(
  RepositoryAliases,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    /** By name in lower case. */
    const all = new Map<string, RepositoryAlias>()
    const at = (host: string, path: string) =>
      Array.from(all.values()).find((one) =>
        one.host.toLowerCase() === host.toLowerCase() && one.path.toLowerCase() === path.toLowerCase()
      ) ?? null

    return RepositoryAliases.of({
      set: Effect.fnUntraced(function*(alias, when) {
        const key = alias.name.toLowerCase()
        const holder = at(alias.host, alias.path)
        if (holder !== null && holder.name.toLowerCase() !== key) {
          return yield* new AliasRefused({ reason: "path", name: holder.name })
        }
        const before = all.get(key)
        if (before === undefined && all.size >= MAX_ALIASES) return yield* new AliasRefused({ reason: "limit", name: null })
        if (before?.name === alias.name && before.host === alias.host && before.path === alias.path) return
        all.set(key, alias)
        yield* audit.append([aliasChanged("repository_alias.set", alias, when)])
      }),
      remove: Effect.fnUntraced(function*(name, when) {
        const alias = all.get(name.toLowerCase())
        if (alias === undefined) return false
        all.delete(name.toLowerCase())
        yield* audit.append([aliasChanged("repository_alias.removed", alias, when)])
        return true
      }),
      find: (name) => Effect.sync(() => all.get(name.toLowerCase()) ?? null),
      at: (host, path) => Effect.sync(() => at(host, path)),
      list: Effect.sync(() => Array.from(all).toSorted(([a], [b]) => a < b ? -1 : 1).map(([, alias]) => alias))
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
