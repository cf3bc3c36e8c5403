/** Who may call, and the administration of grants and keys. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Ids } from "../../ids/Ids.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import {
  type Admission,
  AccessStore,
  type Grant,
  type GrantNotFound,
  KeyNotFound,
  type KeyRecord,
  type RateLimits
} from "../ports/AccessStore.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { hint, mint } from "../rules/ApiKey.ts"
import { decide, KeysPerUser, type Life, mayRevoke, type MintRefused } from "../rules/Minting.ts"
import type { Admitted } from "../rules/Session.ts"
import type { Scope } from "../schema/Principal.ts"

/** Topic on which is hinted that somebody lost a right, so that open streams look at once. */
export const REVOCATIONS = "revocations"

/** The name is that of a grant of another organization. */
export class GrantNameTaken extends Schema.TaggedError<GrantNameTaken>()("GrantNameTaken", { grant: Schema.String }) {
  override get message() {
    return `There is a grant ${this.grant} already, of another organization. Choose another name.`
  }
}

/** A new key, with the one chance to read it. */
export interface MintedKey {
  readonly record: KeyRecord
  readonly grant: Grant
  /** Shown once: it cannot be read again. */
  readonly key: Redacted.Redacted
}

/**
 * Keys and grants: who may call, and the operator's ways to change that. Revoking works on the next request of any
 * process.
 */
export class Access extends Context.Service<Access, {
  /** Authenticates a well-formed key and takes a slot of each of the limits. `null`: 401. */
  admit(key: Redacted.Redacted, limits: RateLimits): Effect.Effect<Admission | null, StoreUnavailable>
  /** Makes the grant, or returns the one of that name that is not revoked. Without `organizationId` it is the owner's. */
  createGrant(
    name: string,
    organizationId?: string
  ): Effect.Effect<{ readonly grant: Grant; readonly made: boolean }, GrantNameTaken | StoreUnavailable>
  /** A grant named for the first time is made. Without `userId` the key is the owner's, without `life` it never expires. */
  createKey(request: {
    readonly grant: string
    readonly label: string
    readonly scopes: ReadonlyArray<Scope>
    readonly kind: "live" | "test"
    readonly userId?: string | undefined
    readonly life?: Life | undefined
  }): Effect.Effect<MintedKey, MintRefused | StoreUnavailable>
  /** A key for the person who visits, of the grant that the visit is in. */
  mintOwn(by: Admitted, request: { readonly label: string; readonly scopes: ReadonlyArray<Scope>; readonly life: Life }): Effect.Effect<
    MintedKey,
    MintRefused | StoreUnavailable
  >
  /** Every key of the grant, newest first, and whether the person who visits may revoke it. */
  keysFor(by: Admitted): Effect.Effect<ReadonlyArray<{ readonly key: KeyRecord; readonly mayRevoke: boolean }>, StoreUnavailable>
  /** As `revokeKey`. A key of another grant, or one that is not the person's to revoke, is not found. */
  revokeFor(by: Admitted, id: string): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
  revokeGrant(idOrName: string): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  revokeKey(id: string): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
}>()("@slipway/domain/Access") {
  static readonly layer = Layer.effect(
    Access,
    Effect.gen(function*() {
      const store = yield* AccessStore
      const members = yield* MemberStore
      const ids = yield* Ids
      const hints = yield* Hints
      const keysPerUser = yield* KeysPerUser

      const createGrant = Effect.fn("Access.createGrant")(function*(name: string, given?: string) {
        const organizationId = given ?? (yield* members.owner).organizationId
        const found = yield* store.createGrant({ id: yield* ids.uuid7, name, organizationId, createdAt: yield* DateTime.now })
        if (given !== undefined && found.grant.organizationId !== given) return yield* new GrantNameTaken({ grant: name })
        return found
      })

      const issue = Effect.fnUntraced(
        function*({ grant, kind, ...about }: Pick<KeyRecord, "userId" | "label" | "scopes" | "createdAt" | "expiresAt"> & {
          readonly grant: Grant
          readonly kind: "live" | "test"
        }) {
          const key = yield* mint(ids, kind)
          const record = yield* store.createKey(
            { ...about, id: yield* ids.uuid7, grantId: grant.id, ...hint(key) },
            ids.digest(Redacted.value(key)),
            keysPerUser
          )
          return { record, grant, key }
        }
      )

      const revokeKey = Effect.fn("Access.revokeKey")(function*(id: string) {
        const key = yield* store.revokeKey(id, yield* DateTime.now)
        yield* hints.publish([REVOCATIONS])
        return key
      })

      return Access.of({
        admit: (key, limits) => store.admit(ids.digest(Redacted.value(key)), limits),
        createGrant,
        createKey: Effect.fn("Access.createKey")(function*({ grant: name, kind, label, life = null, scopes, userId: given }) {
          const owner = yield* members.owner
          const userId = given ?? owner.userId
          const known = (yield* store.listGrants).find((grant) => grant.name === name && grant.revokedAt === null)
          const organizationId = known?.organizationId ?? owner.organizationId
          const now = yield* DateTime.now
          // Read before the key is stored, not with it: a right that ends meanwhile ends what the key opens all the same.
          const expiresAt = yield* Effect.fromResult(decide({
            by: "operator",
            member: (yield* members.members(organizationId)).find(({ user }) => user.id === userId) ?? null,
            organization: (yield* members.organizations).find(({ id }) => id === organizationId) ?? { suspendedAt: now },
            scopes,
            life
          }, now))
          const grant = known ?? (yield* createGrant(name).pipe(Effect.catchTag("GrantNameTaken", Effect.die))).grant
          return yield* issue({ grant, userId, label, scopes, kind, createdAt: now, expiresAt })
        }),
        mintOwn: Effect.fn("Access.mintOwn")(function*({ place, user }, { label, life, scopes }) {
          const now = yield* DateTime.now
          const expiresAt = yield* Effect.fromResult(decide({
            by: "person",
            member: { user, role: place.role, active: true },
            organization: { suspendedAt: null },
            scopes,
            life
          }, now))
          const grant = (yield* store.listGrants).find(({ id }) => id === place.grantId)
          if (grant === undefined) return yield* Effect.die(`the grant ${place.grantId} of a visit is gone`)
          return yield* issue({ grant, userId: user.id, label, scopes, kind: "live", createdAt: now, expiresAt })
        }),
        keysFor: ({ place, user }) =>
          Effect.map(
            store.listKeys(place.grantId),
            (keys) => keys.map((key) => ({ key, mayRevoke: mayRevoke({ userId: user.id, role: place.role }, key) }))
          ),
        revokeFor: Effect.fn("Access.revokeFor")(function*({ place, user }, id) {
          const key = (yield* store.listKeys(place.grantId)).find((key) => key.id === id)
          if (key === undefined || !mayRevoke({ userId: user.id, role: place.role }, key)) return yield* new KeyNotFound({ key: id })
          return yield* revokeKey(id)
        }),
        revokeGrant: Effect.fn("Access.revokeGrant")(function*(idOrName) {
          const grant = yield* store.revokeGrant(idOrName, yield* DateTime.now)
          yield* hints.publish([REVOCATIONS])
          return grant
        }),
        revokeKey
      })
    })
  )
}
