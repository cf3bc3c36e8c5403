/** Port: organizations, users, grants and keys. Checked by `testing/AccessStoreContract`. */
import { Context, type DateTime, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import type { Principal, Scope } from "./Principal.ts"

/** The rate slot a request took or was refused (decisions, section 10). */
export interface RateSlot {
  readonly accepted: boolean
  /** Requests left in the window after this one. */
  readonly remaining: number
  /** Whole seconds, rounded up, until `remaining` grows. At least 1 when refused. */
  readonly resetSeconds: number
}

/** What one statement says of a key that is known and not revoked, nor its grant. */
export interface Admission {
  readonly principal: Principal
  /** The key's user is still an active member of the grant's organization. */
  readonly memberActive: boolean
  readonly rate: RateSlot
}

export interface Grant {
  readonly id: string
  /** Unique among grants that are not revoked. */
  readonly name: string
  readonly organizationId: string
  readonly createdAt: DateTime.Utc
  readonly revokedAt: DateTime.Utc | null
}

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
  readonly lastUsedAt: DateTime.Utc | null
  readonly revokedAt: DateTime.Utc | null
}

export class GrantNotFound extends Schema.TaggedError<GrantNotFound>()("GrantNotFound", { grant: Schema.String }) {
  override get message() {
    return `There is no grant ${this.grant}.`
  }
}
export class KeyNotFound extends Schema.TaggedError<KeyNotFound>()("KeyNotFound", { key: Schema.String }) {
  override get message() {
    return `There is no key ${this.key}.`
  }
}

export class AccessStore extends Context.Service<AccessStore, {
  /**
   * Authenticates and takes a rate slot, in one statement: at most `limit` requests of a key in any 60 s, by the
   * store's own time, across all processes. `null`: unknown or revoked key, revoked grant. A refused request costs no slot.
   */
  admit(digest: string, limit: number): Effect.Effect<Admission | null, StoreUnavailable>
  /** Which of these keys are still good: key and grant not revoked, member active. For streams that stay open. */
  stillGood(keyIds: ReadonlyArray<string>): Effect.Effect<ReadonlySet<string>, StoreUnavailable>
  /** The organization and user of the embedded server's owner; made on first use. */
  readonly owner: Effect.Effect<{ readonly organizationId: string; readonly userId: string }, StoreUnavailable>
  /** Makes the grant, or returns the one of that name that is not revoked. */
  createGrant(grant: Pick<Grant, "id" | "name" | "organizationId" | "createdAt">): Effect.Effect<
    { readonly grant: Grant; readonly made: boolean },
    StoreUnavailable
  >
  /** Newest first. */
  readonly listGrants: Effect.Effect<ReadonlyArray<Grant>, StoreUnavailable>
  /** By id or by name. Its keys stop working at once. Revoking twice keeps the first time. */
  revokeGrant(idOrName: string, at: DateTime.Utc): Effect.Effect<Grant, GrantNotFound | StoreUnavailable>
  createKey(key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">, digest: string): Effect.Effect<KeyRecord, StoreUnavailable>
  /** Newest first; of one grant when named. */
  listKeys(grantId: string | null): Effect.Effect<ReadonlyArray<KeyRecord>, StoreUnavailable>
  /** Works on the next request. Revoking twice keeps the first time. */
  revokeKey(id: string, at: DateTime.Utc): Effect.Effect<KeyRecord, KeyNotFound | StoreUnavailable>
}>()("@slipway/domain/AccessStore") {}
