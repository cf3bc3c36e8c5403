/** Port: grants and keys. Checked by `AccessStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { MintRefused } from "../rules/Minting.ts"
import type { Principal, Scope } from "../schema/Principal.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/**
 * How many requests may be accepted in any 60 s: of one key, of its user with all keys, of its grant with all keys. Of sessions:
 * of one, and of its user with all of them. Keys and sessions do not count together, so that a program which asks too much
 * does not keep its user from the page where the key is revoked.
 */
export interface RateLimits {
  /** Of a key or a session. */
  readonly credential: number
  readonly user: number
  readonly grant: number
}

/** The rate slot a request took or was refused (docs/decisions/10): it takes one of each limit, or none. */
export interface RateSlot {
  readonly accepted: boolean
  /** Requests left in the window after this one: of the limit that has the fewest. */
  readonly remaining: number
  /** Whole seconds, rounded up, until `remaining` grows. At least 1 when refused. */
  readonly resetSeconds: number
  /** The limit that `remaining` and `resetSeconds` are of. */
  readonly limit: keyof RateLimits
}

/** What one statement says of a key that is known and neither revoked nor expired, nor its grant revoked. */
export interface Admission {
  readonly principal: Principal
  /** The key's user is still an active member of the grant's organization. */
  readonly memberActive: boolean
  readonly organizationSuspended: boolean
  readonly rate: RateSlot
}

/** What an organization gives a group of keys: sandboxes and feed belong to it. `id` is a UUID. */
export interface Grant {
  readonly id: string
  /** Unique among grants that are not revoked. */
  readonly name: string
  readonly organizationId: string
  readonly createdAt: DateTime.Utc
  readonly revokedAt: DateTime.Utc | null
}

/** A key as it is stored: everything but the key. `id` is a UUID. */
export interface KeyRecord {
  readonly id: string
  readonly grantId: string
  readonly userId: string
  readonly label: string
  /** `sbx_live_` or `sbx_test_`. */
  readonly prefix: string
  readonly last4: string
  readonly scopes: ReadonlyArray<Scope>
  readonly createdAt: DateTime.Utc
  /** From then on the key is as unknown as a revoked one; `null`: never. */
  readonly expiresAt: DateTime.Utc | null
  readonly lastUsedAt: DateTime.Utc | null
  readonly revokedAt: DateTime.Utc | null
}

/** No such grant, or it is revoked. Retrying does not help. */
export class GrantNotFound extends Schema.TaggedError<GrantNotFound>()("GrantNotFound", { grant: Schema.String }) {
  override get message() {
    return `There is no grant ${this.grant}.`
  }
}
/** No such key. Retrying does not help. */
export class KeyNotFound extends Schema.TaggedError<KeyNotFound>()("KeyNotFound", { key: Schema.String }) {
  override get message() {
    return `There is no key ${this.key}.`
  }
}

/** The entry of a new key. */
export const minted = ({ createdAt, grantId, id, userId }: Pick<KeyRecord, "id" | "grantId" | "userId" | "createdAt">): SecurityEvent => ({
  action: "key.minted",
  at: createdAt,
  subjects: { keyId: id, grantId, userId }
})

/**
 * Checked by `AccessStoreContract`. Every read is of the present: nothing is cached. Minting, a key's first use and
 * revoking are in the audit log.
 */
export class AccessStore extends Context.Service<AccessStore, {
  /**
   * Authenticates and takes a rate slot, in one statement: at most so many requests in any 60 s, by the store's own time,
   * across all processes. `null`: unknown, expired or revoked key, revoked grant. A refused request costs no slot, whichever
   * limit refuses it. Room for a user or a grant may come up to a second late.
   */
  admit(digest: string, limits: RateLimits): Effect.Effect<Admission | null, StoreUnavailable>
  /** Which of these keys are heard: as `admit` judges, without taking a slot. For streams that stay open. */
  stillGood(keyIds: ReadonlyArray<string>): Effect.Effect<ReadonlySet<string>, StoreUnavailable>
  /** Makes the grant, or returns the one of that name that is not revoked. */
  createGrant(grant: Pick<Grant, "id" | "name" | "organizationId" | "createdAt">): Effect.Effect<
    { readonly grant: Grant; readonly made: boolean },
    StoreUnavailable
  >
  /** Newest first. */
  readonly listGrants: Effect.Effect<ReadonlyArray<Grant>, StoreUnavailable>
  /** By id or by name. Its keys stop working at once. Revoking twice keeps the first time. */
  revokeGrant(idOrName: string, at: DateTime.Utc): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /**
   * Fails with `too_many_keys` when the user has `most` keys that are good at the key's `createdAt`: of many that are minted
   * at once, too.
   */
  createKey(
    key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">,
    digest: string,
    most: number
  ): Effect.Effect<KeyRecord, MintRefused | StoreUnavailable>
  /** Newest first; of one grant when named. */
  listKeys(grantId: string | null): Effect.Effect<ReadonlyArray<KeyRecord>, StoreUnavailable>
  /** Works on the next request. Revoking twice keeps the first time. */
  revokeKey(id: string, at: DateTime.Utc): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
}>()("@slipway/domain/AccessStore") {
}
