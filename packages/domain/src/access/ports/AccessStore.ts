/** Port: grants and keys. Checked by `AccessStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { BranchRule } from "../../source/schema/BranchRules.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { MintRefused } from "../rules/Minting.ts"
import type { Grant } from "../schema/Grant.ts"
import type { Principal, Scope } from "../schema/Principal.ts"
import type { SecurityEvent } from "./AuditLog.ts"

export type { Grant } from "../schema/Grant.ts"

/**
 * Requests accepted in any 60 s, by key, by user over all keys, and by grant over all keys. For sessions: by session, and by user over
 * all sessions. Keys and sessions count apart: a program that asks too often must not keep its user from the page that revokes the key.
 */
export interface RateLimits {
  /** One key or one session. */
  readonly credential: number
  readonly user: number
  readonly grant: number
}

/** The rate slot that a request took or was refused (docs/decisions/10). A request takes one slot of every limit, or no slot. */
export interface RateSlot {
  readonly accepted: boolean
  /** Requests left in the window after this one, by the limit that has the fewest left. */
  readonly remaining: number
  /** Whole seconds, rounded up, until `remaining` grows. At least 1 when refused. */
  readonly resetSeconds: number
  /** The limit that decided `remaining` and `resetSeconds`. */
  readonly limit: keyof RateLimits
}

/** The result of authenticating a valid key: the key is known, and neither the key nor its grant is revoked or expired. */
export interface Admission {
  readonly principal: Principal
  /** The key's user is still an active member of the grant's organization. */
  readonly memberActive: boolean
  readonly organizationSuspended: boolean
  readonly rate: RateSlot
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
  /** From this time on the key is treated as revoked; `null`: it never expires. */
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

/** The security event for a new key. */
export const minted = ({ createdAt, grantId, id, userId }: Pick<KeyRecord, "id" | "grantId" | "userId" | "createdAt">): SecurityEvent => ({
  action: "key.minted",
  at: createdAt,
  subjects: { keyId: id, grantId, userId }
})

/** The security event for a grant's new retention. */
export const retentionSet = ({ id, retentionDays }: Pick<Grant, "id" | "retentionDays">, at: DateTime.Utc): SecurityEvent => ({
  action: "retention.set",
  at,
  subjects: { grantId: id, days: retentionDays === null ? "default" : String(retentionDays) }
})

/** The security event for new rules of a grant's branches. They are cut after 1,000 characters. */
export const branchesSet = (grantId: string, rules: ReadonlyArray<BranchRule>, at: DateTime.Utc): SecurityEvent => ({
  action: "grant.branches_set",
  at,
  subjects: { grantId, branches: rules.join(" ").slice(0, 1_000) }
})

/**
 * Checked by `AccessStoreContract`. Every read is of the present: nothing is cached. Minting, a key's first use,
 * revoking and new retentions are in the audit log.
 */
export class AccessStore extends Context.Service<AccessStore, {
  /**
   * Authenticates and takes a rate slot in one statement. The store's own clock counts requests in any 60 s across all processes.
   * `null`: the key is unknown, expired or revoked, or its grant is revoked. A refused request costs no slot. A slot of a user or a
   * grant may become free up to a second late.
   */
  admit(digest: string, limits: RateLimits): Effect.Effect<Admission | null, StoreUnavailable>
  /** The ids of those keys that `admit` would still accept, without taking a slot. For streams that stay open. */
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
  /** By id or by name. The caller has checked the days (`isRetention`); `null`: as the service says. */
  setRetention(idOrName: string, days: number | null, at: DateTime.Utc): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /** The branches that the grant may continue, `DEFAULT_BRANCH_RULES` until they are set. An unknown or revoked grant may continue none. */
  branchRules(grantId: string): Effect.Effect<ReadonlyArray<BranchRule>, StoreUnavailable>
  /** The rules of all grants in use together, each once: nothing on such a branch is trusted. */
  readonly allBranchRules: Effect.Effect<ReadonlyArray<BranchRule>, StoreUnavailable>
  /** Replaces the rules of a grant in use, by id or by name. The audit log records a change. */
  setBranchRules(
    idOrName: string,
    rules: ReadonlyArray<BranchRule>,
    at: DateTime.Utc
  ): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  /**
   * Fails with `too_many_keys` when the user has `most` valid keys at the key's `createdAt`. The limit also holds for keys minted at
   * the same time.
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
