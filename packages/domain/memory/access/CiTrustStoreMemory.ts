/** `CiTrustStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AccessStore, GrantNotFound } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { ciTokenExchanged, ciTrustChanged, CiTrustNotFound, CiTrustStore, TooManyCiTrusts } from "../../src/access/ports/CiTrustStore.ts"
import type { CiTrust } from "../../src/access/schema/CiTrust.ts"
import * as AccessStoreMemory from "./AccessStoreMemory.ts"

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
  CiTrustStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = yield* AccessStore
    /** By id. */
    const trusts = new Map<string, CiTrust>()
    const isInUse = (grantId: string) =>
      Effect.map(access.listGrants, (grants) => grants.some(({ id, revokedAt }) => id === grantId && revokedAt === null))

    return CiTrustStore.of({
      add: Effect.fnUntraced(function*(trust, most) {
        if (!(yield* isInUse(trust.grantId))) return yield* new GrantNotFound({ grant: trust.grantId })
        const ofGrant = Array.from(trusts.values()).filter(({ grantId }) => grantId === trust.grantId)
        if (ofGrant.length >= most) return yield* new TooManyCiTrusts({ most })
        trusts.set(trust.id, trust)
        yield* audit.append([ciTrustChanged("ci_trust.added", trust, trust.createdAt)])
      }),
      list: Effect.fnUntraced(function*(issuer) {
        const asked = Array.from(trusts.values()).filter((trust) => issuer === null || trust.issuer === issuer)
        const listed = yield* Effect.filter(asked, ({ grantId }) => isInUse(grantId))
        return listed.toSorted((a, b) => DateTime.Order(a.createdAt, b.createdAt))
      }),
      remove: Effect.fnUntraced(function*(id, at) {
        const trust = trusts.get(id)
        if (trust === undefined) return yield* new CiTrustNotFound({ trust: id })
        trusts.delete(id)
        yield* audit.append([ciTrustChanged("ci_trust.removed", trust, at)])
        return trust
      }),
      exchange: Effect.fnUntraced(function*(trustId, key, keyDigest, mostKeys) {
        const trust = trusts.get(trustId)
        if (trust === undefined || !(yield* isInUse(trust.grantId))) return null
        const record = yield* access.createKey(key, keyDigest, mostKeys)
        yield* audit.append([ciTokenExchanged(trust, record)])
        return record
      })
    })
  })
).pipe(Layer.provideMerge(AccessStoreMemory.layer))
