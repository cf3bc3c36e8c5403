/** Port: organizations, users, grants and keys. Checked by `testing/AccessStoreContract`. */
import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { Ids } from "../Ids.ts"
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

/** Checked by `testing/AccessStoreContract`. Every read is of the present: nothing is cached. */
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
}>()("@slipway/domain/AccessStore") {
  /** Process-local, for tests and for embedding without a database. Everybody is an active member. */
  static readonly layerMemory = Layer.effect(
    AccessStore,
    Effect.gen(function*() {
      const ids = yield* Ids
      const grants = new Map<string, Grant>()
      const keys = new Map<string, StoredKey>()
      const owner = { organizationId: yield* ids.uuid7, userId: `user_${yield* ids.ulid}` }

      const isGood = (key: StoredKey | undefined): key is StoredKey =>
        key !== undefined && key.record.revokedAt === null && grants.get(key.record.grantId)?.revokedAt === null
      const newestFirst = <A extends { readonly createdAt: DateTime.Utc; readonly id: string }>(items: Iterable<A>) =>
        Array.from(items).sort((a, b) => b.createdAt.epochMilliseconds - a.createdAt.epochMilliseconds || (a.id < b.id ? 1 : -1))

      return AccessStore.of({
        admit: Effect.fnUntraced(function*(digest, limit) {
          const key = Array.from(keys.values()).find((key) => key.digest === digest)
          if (!isGood(key)) return null
          const { grantId, id, prefix, scopes, userId } = key.record
          const now = yield* DateTime.now
          key.record = { ...key.record, lastUsedAt: now }
          return {
            principal: {
              keyId: id,
              grantId,
              organizationId: owner.organizationId,
              userId,
              scopes: new Set(scopes),
              test: prefix === "sbx_test_"
            },
            memberActive: true,
            rate: takeSlot(key.acceptedAt, limit, now.epochMilliseconds)
          }
        }),
        stillGood: (keyIds) => Effect.sync(() => new Set(keyIds.filter((id) => isGood(keys.get(id))))),
        owner: Effect.succeed(owner),
        createGrant: (grant) =>
          Effect.sync(() => {
            const known = Array.from(grants.values()).find(({ name, revokedAt }) => name === grant.name && revokedAt === null)
            if (known !== undefined) return { grant: known, made: false }
            const made: Grant = { ...grant, revokedAt: null }
            grants.set(made.id, made)
            return { grant: made, made: true }
          }),
        listGrants: Effect.sync(() => newestFirst(grants.values())),
        revokeGrant: Effect.fnUntraced(function*(idOrName, at) {
          const grant = grants.get(idOrName) ??
            Array.from(grants.values()).find(({ name, revokedAt }) => name === idOrName && revokedAt === null)
          if (grant === undefined) return yield* new GrantNotFound({ grant: idOrName })
          const revoked = { ...grant, revokedAt: grant.revokedAt ?? at }
          grants.set(grant.id, revoked)
          return revoked
        }),
        createKey: (key, digest) =>
          Effect.sync(() => {
            const record: KeyRecord = { ...key, lastUsedAt: null, revokedAt: null }
            keys.set(key.id, { digest, record, acceptedAt: [] })
            return record
          }),
        listKeys: (grantId) =>
          Effect.sync(() =>
            newestFirst(Array.from(keys.values(), ({ record }) => record)).filter((key) => grantId === null || key.grantId === grantId)
          ),
        revokeKey: Effect.fnUntraced(function*(id, at) {
          const key = keys.get(id)
          if (key === undefined) return yield* new KeyNotFound({ key: id })
          key.record = { ...key.record, revokedAt: key.record.revokedAt ?? at }
          return key.record
        })
      })
    })
  )
}

interface StoredKey {
  readonly digest: string
  record: KeyRecord
  /** When the last requests were accepted, in milliseconds; oldest first. */
  readonly acceptedAt: Array<number>
}

/** The window of the rate limit (decisions, section 10). */
const WINDOW_MILLIS = 60_000

/** Accepts when fewer than `limit` of the last acceptances lie within the window, and remembers this one. */
const takeSlot = (acceptedAt: Array<number>, limit: number, now: number): RateSlot => {
  while (acceptedAt.length > 0 && acceptedAt[0]! <= now - WINDOW_MILLIS) acceptedAt.shift()
  const accepted = acceptedAt.length < limit
  if (accepted) acceptedAt.push(now)
  // With a lower limit than before, there is room only when enough of the old ones have run out.
  const first = acceptedAt[Math.max(0, acceptedAt.length - limit)] ?? now
  return {
    accepted,
    remaining: Math.max(0, limit - acceptedAt.length),
    resetSeconds: Math.max(1, Math.ceil((first + WINDOW_MILLIS - now) / 1000))
  }
}
