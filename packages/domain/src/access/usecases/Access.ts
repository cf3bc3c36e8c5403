/** Authentication by key, and the administration of grants and keys. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Ids } from "../../ids/Ids.ts"
import type { BranchRule } from "../../source/schema/BranchRules.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import {
  type Admission,
  AccessStore,
  type Grant,
  GrantNotFound,
  KeyNotFound,
  type KeyRecord,
  type RateLimits
} from "../ports/AccessStore.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { hint, mint } from "../rules/ApiKey.ts"
import { decide, KeysPerUser, type Life, mayRevoke, type MintRefused } from "../rules/Minting.ts"
import type { Admitted } from "../rules/Session.ts"
import type { Scope } from "../schema/Principal.ts"

/** The topic of hints about a lost right, so that open streams check their rights at once. */
export const REVOCATIONS = "revocations"

/** A grant of another organization has this name. */
export class GrantNameTaken extends Schema.TaggedError<GrantNameTaken>()("GrantNameTaken", { grant: Schema.String }) {
  override get message() {
    return `There is a grant ${this.grant} already, of another organization. Choose another name.`
  }
}

/** A new key. This is the only time that it can be read. */
export interface MintedKey {
  readonly record: KeyRecord
  readonly grant: Grant
  /** Shown once; it cannot be read again. */
  readonly key: Redacted.Redacted
}

/** Authentication by key, and an operator's changes of keys and grants. A revocation takes effect on the next request of any process. */
export class Access extends Context.Service<Access, {
  /** Authenticates a well-formed key and takes a slot of each limit. `null`: answer 401. */
  admit(key: Redacted.Redacted, limits: RateLimits): Effect.Effect<Admission | null, StoreUnavailable>
  /** Makes the grant, or returns the unrevoked one of that name. Without `organizationId` it belongs to the owner's organization. */
  createGrant(
    name: string,
    organizationId?: string
  ): Effect.Effect<{ readonly grant: Grant; readonly made: boolean }, GrantNameTaken | StoreUnavailable>
  /** Makes the key, and its grant if the name is new. Without `userId` the key is the owner's; without `life` it never expires. */
  createKey(request: {
    readonly grant: string
    readonly label: string
    readonly scopes: ReadonlyArray<Scope>
    readonly kind: "live" | "test"
    readonly userId?: string | undefined
    readonly life?: Life | undefined
  }): Effect.Effect<MintedKey, MintRefused | StoreUnavailable>
  /** Mints a key for the visiting person, in the grant of the visit. */
  mintOwn(by: Admitted, request: { readonly label: string; readonly scopes: ReadonlyArray<Scope>; readonly life: Life }): Effect.Effect<
    MintedKey,
    MintRefused | StoreUnavailable
  >
  /** All keys of the grant, newest first, and whether the visiting person may revoke each. */
  keysFor(by: Admitted): Effect.Effect<ReadonlyArray<{ readonly key: KeyRecord; readonly mayRevoke: boolean }>, StoreUnavailable>
  /** Revokes like `revokeKey`. A key of another grant, or a key that the person may not revoke, is not found. */
  revokeFor(by: Admitted, id: string): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
  revokeGrant(idOrName: string): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /** `null`: as the service says. The caller has checked the days (`isRetention`). */
  setRetention(idOrName: string, days: number | null): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  revokeKey(id: string): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
  /** The grant in use of this id or name, and the branches that it may continue (docs/decisions/24). */
  branchesOf(idOrName: string): Effect.Effect<
    { readonly grant: Grant; readonly rules: ReadonlyArray<BranchRule> },
    GrantNotFound | StoreUnavailable
  >
  /** Replaces the branches that the grant may continue. */
  setBranches(idOrName: string, rules: ReadonlyArray<BranchRule>): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
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
        setRetention: (idOrName, days) => Effect.flatMap(DateTime.now, (now) => store.setRetention(idOrName, days, now)),
        admit: (key, limits) => store.admit(ids.digest(Redacted.value(key)), limits),
        createGrant,
        createKey: Effect.fn("Access.createKey")(function*({ grant: name, kind, label, life = null, scopes, userId: given }) {
          const owner = yield* members.owner
          const userId = given ?? owner.userId
          const known = (yield* store.listGrants).find((grant) => grant.name === name && grant.revokedAt === null)
          const organizationId = known?.organizationId ?? owner.organizationId
          const now = yield* DateTime.now
          // This check runs before the key is stored, outside its transaction. If the right ends in between, admission refuses the key.
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
        revokeKey,
        branchesOf: Effect.fn("Access.branchesOf")(function*(idOrName) {
          const grant = (yield* store.listGrants).find(({ id, name, revokedAt }) =>
            revokedAt === null && (id === idOrName || name === idOrName)
          )
          if (grant === undefined) return yield* new GrantNotFound({ grant: idOrName })
          return { grant, rules: yield* store.branchRules(grant.id) }
        }),
        setBranches: Effect.fn("Access.setBranches")(function*(idOrName, rules) {
          return yield* store.setBranchRules(idOrName, rules, yield* DateTime.now)
        })
      })
    })
  )
}
