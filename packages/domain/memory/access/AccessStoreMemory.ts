/** `AccessStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  type RateLimits,
  type RateSlot,
  type Grant,
  type KeyRecord,
  GrantNotFound,
  KeyNotFound,
  branchesSet,
  minted,
  retentionSet,
  AccessStore
} from "../../src/access/ports/AccessStore.ts"
import { Acting, AuditLog } from "../../src/access/ports/AuditLog.ts"
import { MemberStore } from "../../src/access/ports/MemberStore.ts"
import { MintRefused, rightsOf } from "../../src/access/rules/Minting.ts"
import { type BranchRule, DEFAULT_BRANCH_RULES } from "../../src/source/schema/BranchRules.ts"
import * as MemberStoreMemory from "./MemberStoreMemory.ts"

const grantOf = (grants: ReadonlyMap<string, Grant>, idOrName: string) =>
  grants.get(idOrName) ?? Array.from(grants.values()).find(({ name, revokedAt }) => name === idOrName && revokedAt === null)

interface StoredKey {
  readonly digest: string
  record: KeyRecord
  /** The times of the last accepted requests in milliseconds, oldest first. */
  readonly acceptedAt: Array<number>
}

/** The state of one store. */
interface AccessState {
  readonly grants: Map<string, Grant>
  /** By grant; a grant whose rules were never set has no entry. */
  readonly branches: Map<string, ReadonlyArray<BranchRule>>
  readonly keys: Map<string, StoredKey>
  /** The times of the last accepted requests by user, and by grant. */
  readonly ofUsers: Map<string, Array<number>>
  readonly ofGrants: Map<string, Array<number>>
}

type Operations<K extends keyof AccessStore["Service"]> = Pick<AccessStore["Service"], K>

const admission = (
  { grants, keys, ofGrants, ofUsers }: AccessState,
  members: MemberStore["Service"],
  audit: AuditLog["Service"]
): Operations<"admit" | "stillGood"> => ({
  admit: Effect.fnUntraced(function*(digest, limits) {
    const now = yield* DateTime.now
    const found = yield* standingOf(members, grants, Array.from(keys.values()).find((key) => key.digest === digest), now)
    if (found === null) return null
    const { key, memberActive, organizationId, organizationSuspended, role } = found
    const { grantId, id, prefix, scopes, userId } = key.record
    if (key.record.lastUsedAt === null) {
      yield* audit.append([{ action: "key.first_used", at: now, subjects: { keyId: id, grantId } }]).pipe(
        Effect.provideService(Acting, { _tag: "Key", keyId: id })
      )
    }
    key.record = { ...key.record, lastUsedAt: now }
    return {
      principal: {
        credential: { _tag: "Key", keyId: id },
        grantId,
        organizationId,
        userId,
        scopes: rightsOf(role, scopes),
        test: prefix === "sbx_test_"
      },
      memberActive,
      organizationSuspended,
      rate: takeSlot({
        credential: { acceptedAt: key.acceptedAt, most: limits.credential },
        user: { acceptedAt: windowOf(ofUsers, userId), most: limits.user },
        grant: { acceptedAt: windowOf(ofGrants, grantId), most: limits.grant }
      }, now.epochMilliseconds)
    }
  }),
  stillGood: Effect.fnUntraced(function*(keyIds) {
    const now = yield* DateTime.now
    return new Set(
      yield* Effect.filter(
        keyIds,
        (id) =>
          Effect.map(
            standingOf(members, grants, keys.get(id), now),
            (found) => found !== null && found.memberActive && !found.organizationSuspended
          )
      )
    )
  })
})

const grantOperations = (
  { grants }: AccessState,
  audit: AuditLog["Service"]
): Operations<"createGrant" | "listGrants" | "setRetention" | "revokeGrant"> => ({
  createGrant: (grant) =>
    Effect.sync(() => {
      const known = Array.from(grants.values()).find(({ name, revokedAt }) => name === grant.name && revokedAt === null)
      if (known !== undefined) return { grant: known, made: false }
      const made: Grant = { ...grant, revokedAt: null, retentionDays: null }
      grants.set(made.id, made)
      return { grant: made, made: true }
    }),
  listGrants: Effect.sync(() => newestFirst(grants.values())),
  setRetention: Effect.fnUntraced(function*(idOrName, retentionDays, at) {
    const grant = grantOf(grants, idOrName)
    if (grant === undefined || grant.revokedAt !== null) return yield* new GrantNotFound({ grant: idOrName })
    const set = { ...grant, retentionDays }
    grants.set(grant.id, set)
    yield* audit.append([retentionSet(set, at)])
    return set
  }),
  revokeGrant: Effect.fnUntraced(function*(idOrName, at) {
    const grant = grantOf(grants, idOrName)
    if (grant === undefined) return yield* new GrantNotFound({ grant: idOrName })
    const revoked = { ...grant, revokedAt: grant.revokedAt ?? at }
    grants.set(grant.id, revoked)
    if (grant.revokedAt === null) yield* audit.append([{ action: "grant.revoked", at, subjects: { grantId: grant.id } }])
    return revoked
  })
})

const branchRuleOperations = (
  { branches, grants }: AccessState,
  audit: AuditLog["Service"]
): Operations<"branchRules" | "allBranchRules" | "setBranchRules"> => ({
  branchRules: (grantId) => Effect.sync(() => grants.get(grantId)?.revokedAt === null ? branches.get(grantId) ?? DEFAULT_BRANCH_RULES : []),
  allBranchRules: Effect.sync(() => [
    ...new Set(
      Array.from(grants.values()).flatMap(({ id, revokedAt }) => revokedAt === null ? branches.get(id) ?? DEFAULT_BRANCH_RULES : [])
    )
  ]),
  setBranchRules: Effect.fnUntraced(function*(idOrName, rules, at) {
    const grant = Array.from(grants.values()).find(({ id, name, revokedAt }) =>
      revokedAt === null && (id === idOrName || name === idOrName)
    )
    if (grant === undefined) return yield* new GrantNotFound({ grant: idOrName })
    const before = branches.get(grant.id) ?? DEFAULT_BRANCH_RULES
    if (JSON.stringify(before) === JSON.stringify(rules)) return grant
    branches.set(grant.id, rules)
    yield* audit.append([branchesSet(grant.id, rules, at)])
    return grant
  })
})

const keyOperations = ({ grants, keys }: AccessState, audit: AuditLog["Service"]): Operations<"createKey" | "listKeys" | "revokeKey"> => ({
  createKey: Effect.fnUntraced(function*(key, digest, most) {
    const good = Array.from(keys.values()).filter(({ record: { expiresAt, grantId, revokedAt, userId } }) =>
      userId === key.userId && revokedAt === null && grants.get(grantId)?.revokedAt === null &&
      (expiresAt === null || DateTime.isGreaterThan(expiresAt, key.createdAt))
    )
    if (good.length >= most) return yield* new MintRefused({ because: "too_many_keys" })
    const record: KeyRecord = { ...key, lastUsedAt: null, revokedAt: null }
    keys.set(key.id, { digest, record, acceptedAt: [] })
    yield* audit.append([minted(record)])
    return record
  }),
  listKeys: (grantId) =>
    Effect.sync(() =>
      newestFirst(Array.from(keys.values(), ({ record }) => record)).filter((key) => grantId === null || key.grantId === grantId)
    ),
  revokeKey: Effect.fnUntraced(function*(id, at) {
    const key = keys.get(id)
    if (key === undefined) return yield* new KeyNotFound({ key: id })
    if (key.record.revokedAt === null) {
      yield* audit.append([{ action: "key.revoked", at, subjects: { keyId: id, grantId: key.record.grantId } }])
    }
    key.record = { ...key.record, revokedAt: key.record.revokedAt ?? at }
    return key.record
  })
})

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
  AccessStore,
  Effect.gen(function*() {
    const members = yield* MemberStore
    const audit = yield* AuditLog
    const state: AccessState = { grants: new Map(), branches: new Map(), keys: new Map(), ofUsers: new Map(), ofGrants: new Map() }
    return AccessStore.of({
      ...admission(state, members, audit),
      ...grantOperations(state, audit),
      ...branchRuleOperations(state, audit),
      ...keyOperations(state, audit)
    })
  })
).pipe(Layer.provideMerge(MemberStoreMemory.layer))

/** A valid key with the state of its user and organization; `null`: the key is unknown, revoked or expired, or its grant is. */
const standingOf = Effect.fnUntraced(function*(
  members: MemberStore["Service"],
  grants: ReadonlyMap<string, Grant>,
  key: StoredKey | undefined,
  now: DateTime.Utc
) {
  const grant = grants.get(key?.record.grantId ?? "")
  if (key === undefined || grant === undefined || key.record.revokedAt !== null || grant.revokedAt !== null) return null
  if (key.record.expiresAt !== null && DateTime.isLessThanOrEqualTo(key.record.expiresAt, now)) return null
  const organization = (yield* members.organizations).find(({ id }) => id === grant.organizationId)
  const member = (yield* members.members(grant.organizationId)).find(({ user }) => user.id === key.record.userId)
  return {
    key,
    organizationId: grant.organizationId,
    memberActive: member?.active === true,
    role: member?.role ?? "member",
    organizationSuspended: organization === undefined || organization.suspendedAt !== null
  }
})

const newestFirst = <A extends { readonly createdAt: DateTime.Utc; readonly id: string }>(items: Iterable<A>) =>
  Array.from(items).sort((a, b) => b.createdAt.epochMilliseconds - a.createdAt.epochMilliseconds || (a.id < b.id ? 1 : -1))

/** The window of the rate limit (docs/decisions/10). */
const WINDOW_MILLIS = 60_000

/** The times of the last accepted requests in milliseconds, oldest first, and the limit of a window. */
interface RateWindow {
  readonly acceptedAt: Array<number>
  readonly most: number
}

/** The accepted requests that are remembered under a name. */
export const windowOf = (windows: Map<string, Array<number>>, name: string): Array<number> => {
  const acceptedAt = windows.get(name) ?? []
  windows.set(name, acceptedAt)
  return acceptedAt
}

/** Accepts a request if every limit allows it, and remembers it for all of them. For stores in memory. */
export const takeSlot = (windows: { readonly [L in keyof RateLimits]?: RateWindow }, now: number): RateSlot => {
  const limits = (["credential", "user", "grant"] as const).flatMap((limit) => {
    const window = windows[limit]
    return window === undefined ? [] : [{ limit, ...window }]
  })
  for (const { acceptedAt } of limits) while (acceptedAt.length > 0 && acceptedAt[0]! <= now - WINDOW_MILLIS) acceptedAt.shift()
  const accepted = limits.every(({ acceptedAt, most }) => acceptedAt.length < most)
  const slots = limits.map(({ acceptedAt, limit, most }) => {
    if (accepted) acceptedAt.push(now)
    // After the limit was lowered, a slot is free only when enough old requests have left the window.
    const first = acceptedAt[Math.max(0, acceptedAt.length - most)] ?? now
    return {
      accepted,
      remaining: Math.max(0, most - acceptedAt.length),
      resetSeconds: Math.max(1, Math.ceil((first + WINDOW_MILLIS - now) / 1000)),
      limit
    }
  })
  return slots.reduce((tightest, slot) =>
    slot.remaining < tightest.remaining || slot.remaining === tightest.remaining && slot.resetSeconds > tightest.resetSeconds
      ? slot
      : tightest
  )
}
