/** Use cases of trusts in CIs: an operator adds them, and a CI exchanges its token for a key. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Ids } from "../../ids/Ids.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { AccessStore, type Grant, GrantNotFound } from "../ports/AccessStore.ts"
import { Acting } from "../ports/AuditLog.ts"
import { type CiIssuerUnavailable, CiTokens } from "../ports/CiTokens.ts"
import { type CiTrustNotFound, CiTrustStore, type TooManyCiTrusts } from "../ports/CiTrustStore.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { hint, mint } from "../rules/ApiKey.ts"
import { CI_KEY_LIFE, ciKeyLabel, CiTokenRefused, fits, MAX_CI_TRUSTS } from "../rules/CiTrust.ts"
import { decide, KeysPerUser, type MintRefused } from "../rules/Minting.ts"
import type { CiTrust } from "../schema/CiTrust.ts"
import type { MintedKey } from "./Access.ts"

/** Trusts in CIs. A removal takes effect on the next exchange; keys that were exchanged before work until they expire. */
export class CiTrusts extends Context.Service<CiTrusts, {
  /** By id or name of the grant. The user must be allowed to give a key these scopes, now and at each exchange. */
  add(trust: Omit<CiTrust, "id" | "grantId" | "createdAt"> & { readonly grant: string }): Effect.Effect<
    CiTrust,
    GrantNotFound | MintRefused | TooManyCiTrusts | StoreUnavailable
  >
  /** Those of grants in use, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<CiTrust>, StoreUnavailable>
  remove(id: string): Effect.Effect<CiTrust, CiTrustNotFound | StoreUnavailable>
  /**
   * Exchanges a token for a key of the oldest trust that it fits. The same token may be exchanged again while it is valid: a CI whose
   * answer was lost has no other one, and a thief who has the token could have been first.
   */
  exchange(token: Redacted.Redacted): Effect.Effect<MintedKey, CiTokenRefused | CiIssuerUnavailable | MintRefused | StoreUnavailable>
}>()("@slipway/domain/CiTrusts") {
  static readonly layer = Layer.effect(
    CiTrusts,
    Effect.gen(function*() {
      const store = yield* CiTrustStore
      const access = yield* AccessStore
      const members = yield* MemberStore
      const tokens = yield* CiTokens
      const ids = yield* Ids
      const keysPerUser = yield* KeysPerUser

      /** When a key of the trust that is minted now expires. */
      const mayHaveKey = Effect.fnUntraced(function*(
        { organizationId }: Grant,
        { scopes, userId }: Pick<CiTrust, "userId" | "scopes">,
        now: DateTime.Utc
      ): Effect.fn.Return<DateTime.Utc | null, MintRefused | StoreUnavailable> {
        return yield* Effect.fromResult(decide({
          by: "person",
          member: (yield* members.members(organizationId)).find(({ user }) => user.id === userId) ?? null,
          organization: (yield* members.organizations).find(({ id }) => id === organizationId) ?? { suspendedAt: now },
          scopes,
          life: CI_KEY_LIFE
        }, now))
      })
      const inUse = (isIt: (grant: Grant) => boolean) =>
        Effect.map(access.listGrants, (grants) => grants.find((grant) => grant.revokedAt === null && isIt(grant)) ?? null)

      return CiTrusts.of({
        add: Effect.fn("CiTrusts.add")(function*({ grant: idOrName, ...about }) {
          const grant = yield* inUse(({ id, name }) => id === idOrName || name === idOrName)
          if (grant === null) return yield* new GrantNotFound({ grant: idOrName })
          const createdAt = yield* DateTime.now
          yield* mayHaveKey(grant, about, createdAt)
          const trust: CiTrust = { ...about, id: yield* ids.uuid7, grantId: grant.id, createdAt }
          yield* store.add(trust, MAX_CI_TRUSTS)
          return trust
        }),
        list: store.list(null),
        remove: Effect.fn("CiTrusts.remove")(function*(id) {
          return yield* store.remove(id, yield* DateTime.now)
        }),
        exchange: Effect.fn("CiTrusts.exchange")(function*(token) {
          const issuer = tokens.issuerOf(token)
          const trusts = issuer === null ? [] : yield* store.list(issuer)
          // An issuer that no trust names is never asked: strangers choose it.
          if (issuer === null || trusts.length === 0) return yield* new CiTokenRefused()
          const claims = yield* tokens.verify(token, issuer)
          const trust = trusts.find((trust) => fits(trust, claims))
          const grant = trust === undefined ? null : yield* inUse(({ id }) => id === trust.grantId)
          if (trust === undefined || grant === null) return yield* new CiTokenRefused()
          const { scopes, userId } = trust
          const createdAt = yield* DateTime.now
          const expiresAt = yield* mayHaveKey(grant, trust, createdAt)
          const key = yield* mint(ids, "live")
          const label = ciKeyLabel(claims)
          const record = yield* store.exchange(
            trust.id,
            { id: yield* ids.uuid7, grantId: grant.id, userId, label, scopes, createdAt, expiresAt, ...hint(key) },
            ids.digest(Redacted.value(key)),
            keysPerUser
          ).pipe(Effect.provideService(Acting, { _tag: "System" }))
          return record === null ? yield* new CiTokenRefused() : { record, grant, key }
        })
      })
    })
  )
}
