/** `RepositorySettings` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import {
  changed,
  MAX_REPOSITORIES,
  RepositorySettings,
  type RepositorySettingsRecord,
  SettingsRefused
} from "../../src/source/ports/RepositorySettings.ts"
import { NO_SETTINGS, sameSettings } from "../../src/source/schema/RepoSettings.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

/** Process-local, for tests and for embedding without a database. Grants are those of the `AccessStore` beneath it, if there is one. */
export const layer = Layer.effect(
  RepositorySettings,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    const all = new Map<string, Map<string, RepositorySettingsRecord>>()
    const isGood = Effect.fnUntraced(function*(grantId: string) {
      return access === null || (yield* access.listGrants).some(({ id, revokedAt }) => id === grantId && revokedAt === null)
    })
    return RepositorySettings.of({
      of: ({ grantId, repo }) => Effect.sync(() => all.get(grantId)?.get(repo.toLowerCase())?.settings ?? NO_SETTINGS),
      set: Effect.fnUntraced(function*(of, settings, at) {
        const { grantId, repo } = of
        if (!(yield* isGood(grantId))) return yield* new SettingsRefused({ reason: "grant" })
        const ofGrant = all.get(grantId) ?? new Map<string, RepositorySettingsRecord>()
        const key = repo.toLowerCase()
        if (sameSettings(ofGrant.get(key)?.settings ?? NO_SETTINGS, settings)) return
        if (sameSettings(settings, NO_SETTINGS)) ofGrant.delete(key)
        else if (!ofGrant.has(key) && ofGrant.size >= MAX_REPOSITORIES) return yield* new SettingsRefused({ reason: "limit" })
        else ofGrant.set(key, { repo, settings, setAt: at })
        all.set(grantId, ofGrant)
        yield* audit.append([changed(of, at)])
      }),
      list: (grantId) =>
        Effect.sync(() => Array.from(all.get(grantId) ?? []).toSorted(([a], [b]) => a < b ? -1 : 1).map(([, record]) => record))
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
