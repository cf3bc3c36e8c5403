/**
 * The rules that every `AccessStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh names make it repeatable on one database.
 */
import { AccessStore, type KeyRecord, type RateLimits } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Ids } from "@slipway/domain/ids/Ids"
import { type BranchRule, DEFAULT_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "./AuditLogContract.ts"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class AccessFixture extends Context.Service<AccessFixture, {
  /** Makes this much time pass for the rate limit and the expiry of keys, at least. */
  elapse(duration: Duration.Duration): Effect.Effect<void>
  /** The time of the store's own clock. */
  readonly now: Effect.Effect<DateTime.Utc>
}>()("@slipway/testing/AccessFixture") {}

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const later = DateTime.add(at, { minutes: 1 })
/** Large enough never to matter. */
const PLENTY = 1_000_000

const newGrant = Effect.fnUntraced(function*(name?: string, createdAt = at) {
  const store = yield* AccessStore
  const ids = yield* Ids
  const { organizationId } = yield* (yield* MemberStore).owner
  return yield* store.createGrant({ id: yield* ids.uuid7, name: name ?? (yield* ids.uuid7), organizationId, createdAt })
})

const newKey = Effect.fnUntraced(function*(grantId: string, more: Partial<KeyRecord> = {}, most = 1_000_000) {
  const store = yield* AccessStore
  const ids = yield* Ids
  const id = yield* ids.uuid7
  const digest = ids.digest(id)
  const { userId } = yield* (yield* MemberStore).owner
  const record = yield* store.createKey(
    {
      id,
      grantId,
      userId: more.userId ?? userId,
      label: more.label ?? "Laptop 'é'",
      prefix: more.prefix ?? "sbx_live_",
      last4: "aB3d",
      scopes: more.scopes ?? ["sandboxes"],
      createdAt: more.createdAt ?? at,
      expiresAt: more.expiresAt ?? null
    },
    digest,
    most
  )
  return { record, digest }
})

/** A key of a grant of its own. */
const freshKey = Effect.fnUntraced(function*(more: Partial<KeyRecord> = {}) {
  const { grant } = yield* newGrant()
  return { grant, ...(yield* newKey(grant.id, more)) }
})

const admit = (digest: string, limits: Partial<RateLimits> = {}) =>
  Effect.flatMap(AccessStore, (store) => store.admit(digest, { credential: PLENTY, user: PLENTY, grant: PLENTY, ...limits }))
const rateWithin = Effect.fnUntraced(function*(digest: string, limits: Partial<RateLimits>) {
  const admission = yield* admit(digest, limits)
  assert.isNotNull(admission)
  return admission.rate
})
const rate = (digest: string, credential: number) => rateWithin(digest, { credential })
const newUser = Effect.gen(function*() {
  const id = `user_${yield* (yield* Ids).ulid}`
  return (yield* (yield* MemberStore).addUser({ id, name: "Grace", email: null, githubLogin: null, createdAt: at })).id
})
const elapse = (seconds: number) => Effect.flatMap(AccessFixture, (fixture) => fixture.elapse(Duration.seconds(seconds)))

const grants = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("a grant is made once for each name, however many make it at once", () =>
    Effect.gen(function*() {
      const name = yield* (yield* Ids).uuid7
      const made = yield* Effect.forEach(Array.from({ length: 8 }), () => newGrant(name), { concurrency: "unbounded" })
      assert.strictEqual(made.filter(({ made }) => made).length, 1)
      assert.strictEqual(new Set(made.map(({ grant }) => grant.id)).size, 1)
      const { grant, made: again } = yield* newGrant(name, later)
      assert.isFalse(again)
      assert.deepStrictEqual([grant.name, grant.createdAt, grant.revokedAt], [name, at, null])
    }))

  it.effect("a revoked grant's name is free again", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { grant } = yield* newGrant()
      yield* store.revokeGrant(grant.name, later)
      const again = yield* newGrant(grant.name, DateTime.add(at, { hours: 1 }))
      assert.isTrue(again.made)
      assert.notStrictEqual(again.grant.id, grant.id)
      const listed = yield* store.listGrants
      assert.deepStrictEqual(listed.filter(({ name }) => name === grant.name).map(({ revokedAt }) => revokedAt), [null, later])
    }))

  it.effect("lists grants newest first, the revoked ones too", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const first = yield* newGrant(undefined, DateTime.add(at, { hours: 1 }))
      const second = yield* newGrant(undefined, DateTime.add(at, { hours: 2 }))
      yield* store.revokeGrant(second.grant.id, later)
      const listed = (yield* store.listGrants).map(({ id }) => id)
      assert.deepStrictEqual(listed.filter((id) => id === first.grant.id || id === second.grant.id), [second.grant.id, first.grant.id])
    }))

  it.effect("revokes a grant by its name or its id, and revoking twice keeps the first time", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { grant } = yield* newGrant()
      assert.deepStrictEqual(yield* store.revokeGrant(grant.name, at), { ...grant, revokedAt: at })
      assert.deepStrictEqual(yield* store.revokeGrant(grant.id, later), { ...grant, revokedAt: at })
    }))

  it.effect("a grant has its own retention or none, by its name or id, which is listed and told to the audit log", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const [{ grant }, other] = [yield* newGrant(), yield* newGrant()]
      assert.isNull(grant.retentionDays)
      const listed = Effect.map(store.listGrants, (all) => all.find(({ id }) => id === grant.id)?.retentionDays)
      const set = (idOrName: string, days: number | null) =>
        appended(
          Effect.map(store.setRetention(idOrName, days, later), (set) => assert.deepStrictEqual(set, { ...grant, retentionDays: days }))
        )
      const told = (days: string) => [{ action: "retention.set", at: later, subjects: { grantId: grant.id, days } }]
      assert.deepStrictEqual<unknown>(yield* set(grant.name, 7), told("7"))
      assert.strictEqual(yield* listed, 7)
      assert.deepStrictEqual<unknown>(yield* set(grant.id, null), told("default"))
      assert.isNull(yield* listed)
      yield* store.revokeGrant(other.grant.id, at)
      for (const unknown of [yield* (yield* Ids).uuid7, other.grant.id, other.grant.name]) {
        assert.strictEqual((yield* Effect.flip(store.setRetention(unknown, 7, later)))._tag, "GrantNotFound")
      }
    }))

  it.effect("a grant or a key that never was cannot be revoked, nor can a revoked grant by its name", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { grant } = yield* newGrant()
      yield* store.revokeGrant(grant.id, at)
      const unknown = yield* (yield* Ids).uuid7
      for (const key of [unknown, "no such", grant.name]) {
        const error = yield* Effect.flip(store.revokeGrant(key, later))
        assert.strictEqual(error._tag, "GrantNotFound")
      }
      for (const key of [unknown, "no such"]) assert.strictEqual((yield* Effect.flip(store.revokeKey(key, at)))._tag, "KeyNotFound")
    }))
}

const branchRules = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("a grant may continue the branches of sandboxes until its rules are set, by its name or its id", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const [{ grant }, { grant: other }] = [yield* newGrant(), yield* newGrant()]
      assert.deepStrictEqual(yield* store.branchRules(grant.id), DEFAULT_BRANCH_RULES)
      const rules = ["feature/*", "fix", "weird \" , {x}"].map((rule) => rule as BranchRule)
      assert.deepStrictEqual(yield* store.setBranchRules(grant.name, rules, later), grant)
      assert.deepStrictEqual(yield* store.branchRules(grant.id), rules)
      assert.deepStrictEqual(yield* store.branchRules(other.id), DEFAULT_BRANCH_RULES)
      assert.includeMembers([...(yield* store.allBranchRules)], [...rules, ...DEFAULT_BRANCH_RULES])
      yield* store.setBranchRules(grant.id, [], later)
      assert.deepStrictEqual(yield* store.branchRules(grant.id), [])
    }))

  it.effect("a revoked or unknown grant may continue no branch, and its rules are not among those of all grants", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { grant } = yield* newGrant()
      const own = yield* (yield* Ids).uuid7
      yield* store.setBranchRules(grant.id, [`${own}/*` as BranchRule], at)
      assert.include([...(yield* store.allBranchRules)], `${own}/*`)
      yield* store.revokeGrant(grant.id, later)
      assert.deepStrictEqual(yield* store.branchRules(grant.id), [])
      assert.notInclude([...(yield* store.allBranchRules)], `${own}/*`)
      for (const unknown of [grant.id, grant.name, own]) {
        assert.strictEqual((yield* Effect.flip(store.setBranchRules(unknown, [], later)))._tag, "GrantNotFound")
      }
      assert.deepStrictEqual(yield* store.branchRules("no uuid"), [])
    }))

  it.effect("the audit log has each change of the rules of a grant's branches", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { grant } = yield* newGrant()
      const rules = ["feature/*" as BranchRule, "fix" as BranchRule]
      const set = store.setBranchRules(grant.id, rules, later)
      const entries = yield* appended(Effect.all([store.setBranchRules(grant.id, DEFAULT_BRANCH_RULES, at), set, set]))
      assert.deepStrictEqual(entries, [
        { action: "grant.branches_set", at: later, subjects: { grantId: grant.id, branches: "feature/* fix" } }
      ])
    }))
}

const keyLists = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("lists the keys of a grant newest first, with every field as it was given", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const scopes: ReadonlyArray<Scope> = ["sandboxes", "metrics:read"]
      const { grant, record: first } = yield* freshKey({ scopes })
      const { record: second } = yield* newKey(grant.id, { createdAt: later, prefix: "sbx_test_" })
      const { record: foreign } = yield* freshKey()
      assert.deepStrictEqual(first, {
        ...first,
        label: "Laptop 'é'",
        prefix: "sbx_live_",
        last4: "aB3d",
        scopes,
        createdAt: at,
        expiresAt: null,
        lastUsedAt: null,
        revokedAt: null
      })
      assert.deepStrictEqual(yield* store.listKeys(grant.id), [second, first])
      const all = (yield* store.listKeys(null)).map(({ id }) => id)
      assert.includeMembers(all, [first.id, second.id, foreign.id])
      assert.isBelow(all.indexOf(second.id), all.indexOf(first.id))
    }))
}

const admission = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("lets a user have so many good keys and no more, in all grants together, however many are minted at once", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const members = yield* MemberStore
      const ids = yield* Ids
      const newUser = Effect.gen(function*() {
        const id = `user_${yield* ids.ulid}`
        yield* members.recognize({
          provider: "github",
          entry: AS_INVITED,
          subject: yield* ids.uuid7,
          login: `u${(yield* ids.uuid7).slice(-12)}`,
          name: "N",
          email: null
        }, {
          id,
          at
        })
        return id
      })
      const [one, other] = [yield* newGrant(), yield* newGrant()]
      const mintFor = (userId: string) => (more: Partial<KeyRecord> = {}, { grant } = one) => newKey(grant.id, { userId, ...more }, 3)
      const mintAtOnce = mintFor(yield* newUser)
      const minted = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, i) => i % 2 === 0 ? one : other),
        (grant) => Effect.result(mintAtOnce({}, grant)),
        { concurrency: "unbounded" }
      )
      const refused = minted.flatMap((result) => Result.isFailure(result) ? [result.failure] : [])
      assert.deepStrictEqual([minted.length, refused.length], [8, 5])
      assert.isTrue(refused.every((error) => error._tag === "MintRefused" && error.because === "too_many_keys"))
      // Others have keys of their own.
      const mint = mintFor(yield* newUser)
      const { record } = yield* mint()
      yield* mint()
      yield* mint({}, other)
      // An invalid key does not count: revoked, of a revoked grant, or expired by then.
      yield* store.revokeKey(record.id, later)
      yield* mint({ expiresAt: later })
      assert.strictEqual((yield* Effect.flip(mint()))._tag, "MintRefused")
      yield* mint({ createdAt: later })
      assert.strictEqual((yield* Effect.flip(mint({ createdAt: later })))._tag, "MintRefused")
      yield* store.revokeGrant(other.grant.id, later)
      yield* mint({ createdAt: later })
    }))

  it.effect("admits a key with what it stands for", () =>
    Effect.gen(function*() {
      const { organizationId, userId } = yield* (yield* MemberStore).owner
      const { digest, grant, record } = yield* freshKey({ scopes: ["sandboxes", "webhooks"] })
      const admission = yield* admit(digest)
      assert.deepStrictEqual(admission?.principal, {
        credential: { _tag: "Key", keyId: record.id },
        grantId: grant.id,
        organizationId,
        userId,
        scopes: new Set<Scope>(["sandboxes", "webhooks"]),
        test: false
      })
      assert.deepStrictEqual([admission?.memberActive, admission?.organizationSuspended], [true, false])
      const test = yield* newKey(grant.id, { prefix: "sbx_test_" })
      assert.isTrue((yield* admit(test.digest))?.principal.test)
    }))

  it.effect("remembers that a key was used", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { digest, grant } = yield* freshKey()
      yield* admit(digest)
      assert.isNotNull((yield* store.listKeys(grant.id))[0]?.lastUsedAt)
    }))

  it.effect("does not admit a digest it does not know", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      yield* freshKey()
      assert.isNull(yield* admit(ids.digest(yield* ids.uuid7)))
    }))

  it.effect("does not admit a revoked key from the next request on; the grant's other keys go on", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { digest, grant, record } = yield* freshKey()
      const other = yield* newKey(grant.id)
      assert.isNotNull(yield* admit(digest))
      assert.deepStrictEqual((yield* store.revokeKey(record.id, at)).revokedAt, at)
      assert.isNull(yield* admit(digest))
      assert.isNotNull(yield* admit(other.digest))
      assert.deepStrictEqual((yield* store.revokeKey(record.id, later)).revokedAt, at)
      assert.deepStrictEqual((yield* store.listKeys(grant.id)).map(({ revokedAt }) => revokedAt === null).sort(), [false, true])
    }))
}

const rateLimits = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("does not admit any key of a revoked grant from the next request on", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { digest, grant } = yield* freshKey()
      const other = yield* newKey(grant.id)
      const foreign = yield* freshKey()
      assert.isNotNull(yield* admit(digest))
      yield* store.revokeGrant(grant.id, at)
      assert.isNull(yield* admit(digest))
      assert.isNull(yield* admit(other.digest))
      assert.isNotNull(yield* admit(foreign.digest))
    }))

  it.effect("tells which keys are still good: not revoked, nor their grant, and known", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const good = yield* freshKey()
      const revoked = yield* freshKey()
      const orphan = yield* freshKey()
      const all = [good, revoked, orphan].map(({ record }) => record.id)
      assert.deepStrictEqual(yield* store.stillGood(all), new Set(all))
      yield* store.revokeKey(revoked.record.id, at)
      yield* store.revokeGrant(orphan.grant.id, at)
      const unknown = yield* (yield* Ids).uuid7
      assert.deepStrictEqual(yield* store.stillGood([...all, unknown]), new Set([good.record.id]))
      assert.deepStrictEqual(yield* store.stillGood([]), new Set<string>())
    }))

  it.effect("of many requests at once exactly the limit is accepted", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      const slots = yield* Effect.forEach(Array.from({ length: 40 }), () => rate(digest, 25), { concurrency: "unbounded" })
      const accepted = slots.filter(({ accepted }) => accepted).map(({ remaining }) => remaining)
      assert.sameMembers(accepted, Array.from({ length: 25 }, (_, i) => i))
      assert.isTrue(slots.every(({ accepted, remaining }) => accepted || remaining === 0))
    }))

  it.effect("of many requests at once each is told of its own key, and the unknown of none", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const keys = yield* Effect.forEach([0, 1, 2, 3, 4], (limit) => Effect.map(freshKey(), (key) => ({ ...key, limit })))
      const unknown = (yield* Ids).digest("unknown")
      const asked = Array.from({ length: 30 }, (_, i) => i % 6 === 5 ? null : keys[i % 6] ?? null)
      const told = yield* Effect.forEach(
        asked,
        (key) => store.admit(key?.digest ?? unknown, { credential: key?.limit ?? 1, user: 1000, grant: 1000 }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        told.map((admission) => admission?.principal.credential ?? null),
        asked.map((key) => key === null ? null : { _tag: "Key" as const, keyId: key.record.id })
      )
      for (const key of keys) {
        const accepted = told.filter((admission, i) => asked[i] === key && admission?.rate.accepted === true)
        assert.strictEqual(accepted.length, key.limit)
      }
    }))

  it.effect("tells how many are left and in how many seconds there will be more", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      const first = yield* rate(digest, 3)
      yield* elapse(30)
      const second = yield* rate(digest, 3)
      const third = yield* rate(digest, 3)
      const refused = yield* rate(digest, 3)
      const slots = [first, second, third, refused]
      assert.deepStrictEqual(slots.map(({ accepted }) => accepted), [true, true, true, false])
      assert.deepStrictEqual(slots.map(({ remaining }) => remaining), [2, 1, 0, 0])
      for (const { resetSeconds } of slots) assert.isTrue(Number.isInteger(resetSeconds) && resetSeconds >= 1)
      assert.isAtMost(first.resetSeconds, 60)
      // The oldest acceptance runs out next.
      for (const { resetSeconds } of slots.slice(1)) assert.isAtMost(resetSeconds, 30)
    }))

  it.effect("has room after a wait of as many seconds as it tells", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      assert.isTrue((yield* rate(digest, 1)).accepted)
      yield* elapse(0.4)
      const { accepted, resetSeconds } = yield* rate(digest, 1)
      assert.isFalse(accepted)
      yield* elapse(resetSeconds)
      assert.isTrue((yield* rate(digest, 1)).accepted)
    }))
}

const rateLimitChanges = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("a refused request costs nothing: the first acceptance to run out makes room for exactly one", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      const accepted = (times: number) =>
        Effect.map(Effect.replicateEffect(rate(digest, 2), times), (slots) => slots.map(({ accepted }) => accepted))
      assert.deepStrictEqual(yield* accepted(1), [true])
      yield* elapse(30)
      assert.deepStrictEqual(yield* accepted(5), [true, false, false, false, false])
      yield* elapse(30)
      assert.deepStrictEqual(yield* accepted(3), [true, false, false])
      yield* elapse(60)
      assert.deepStrictEqual(yield* accepted(3), [true, true, false])
    }))

  it.effect("a steady pace at the limit is never refused", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      for (let i = 0; i < 12; i++) {
        assert.isTrue((yield* rate(digest, 3)).accepted)
        yield* elapse(20)
      }
    }))

  it.effect("a limit that was lowered counts what was accepted before", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      yield* rate(digest, 5)
      yield* elapse(30)
      yield* rate(digest, 5)
      yield* rate(digest, 5)
      const { accepted, remaining, resetSeconds } = yield* rate(digest, 2)
      assert.deepStrictEqual([accepted, remaining], [false, 0])
      // The first to run out still leaves two: there is room only when the second does too.
      assert.isAbove(resetSeconds, 30)
      assert.isAtMost(resetSeconds, 60)
    }))

  it.effect("a limit of thousands a minute is as exact, and room may come a moment late", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      const accepted = (times: number) =>
        Effect.map(
          Effect.replicateEffect(rate(digest, 1500), times, { concurrency: "unbounded" }),
          (slots) => slots.filter(({ accepted }) => accepted).length
        )
      assert.strictEqual(yield* accepted(800), 800)
      yield* elapse(30)
      assert.strictEqual(yield* accepted(750), 700)
      const refused = yield* rate(digest, 1500)
      assert.strictEqual(refused.remaining, 0)
      assert.isAtMost(refused.resetSeconds, 31)
      yield* elapse(31)
      assert.strictEqual(yield* accepted(850), 800)
      yield* elapse(61)
      assert.strictEqual((yield* rate(digest, 1500)).remaining, 1499)
    }))

  it.effect("a limit lowered from thousands to a few counts what was accepted before", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey()
      for (let i = 0; i < 3; i++) yield* rate(digest, 1500)
      assert.isFalse((yield* rate(digest, 3)).accepted)
      assert.strictEqual((yield* rate(digest, 4)).remaining, 0)
      assert.isFalse((yield* rate(digest, 4)).accepted)
      assert.strictEqual((yield* rate(digest, 1500)).remaining, 1495)
    }))

  it.effect("every key has a limit of its own, also within one grant", () =>
    Effect.gen(function*() {
      const { digest, grant } = yield* freshKey()
      const other = yield* newKey(grant.id)
      assert.isTrue((yield* rate(digest, 1)).accepted)
      assert.isFalse((yield* rate(digest, 1)).accepted)
      assert.isTrue((yield* rate(other.digest, 1)).accepted)
    }))
}

const sharedLimits = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("all keys of a user have one limit together, in all grants; at once exactly so many are accepted", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const keys = [yield* freshKey({ userId }), yield* freshKey({ userId }), yield* freshKey({ userId })]
      const asked = Array.from({ length: 30 }, (_, i) => keys[i % 3]!.digest)
      const slots = yield* Effect.forEach(asked, (digest) => rateWithin(digest, { credential: 12, user: 20 }), {
        concurrency: "unbounded"
      })
      assert.strictEqual(slots.filter(({ accepted }) => accepted).length, 20)
      for (const { limit } of slots.filter(({ accepted }) => !accepted)) assert.strictEqual(limit, "user")
      assert.isTrue((yield* rateWithin((yield* freshKey({ userId: yield* newUser })).digest, { user: 20 })).accepted)
      yield* elapse(61)
      assert.isTrue((yield* rateWithin(keys[0]!.digest, { user: 20 })).accepted)
    }))

  it.effect("all keys of a grant share one limit, also keys of different users; other grants have their own", () =>
    Effect.gen(function*() {
      const [ada, grace] = [yield* newUser, yield* newUser]
      const { digest, grant } = yield* freshKey({ userId: ada })
      const other = yield* newKey(grant.id, { userId: grace })
      const elsewhere = yield* freshKey({ userId: grace })
      const slots = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, i) => [digest, other.digest][i % 2]!),
        (key) => rateWithin(key, { grant: 7 }),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(slots.filter(({ accepted }) => accepted).length, 7)
      for (const { limit, remaining, resetSeconds } of slots.filter(({ accepted }) => !accepted)) {
        assert.deepStrictEqual([limit, remaining], ["grant", 0])
        assert.isTrue(Number.isInteger(resetSeconds) && resetSeconds >= 1 && resetSeconds <= 61)
      }
      assert.isTrue((yield* rateWithin(elsewhere.digest, { grant: 7 })).accepted)
      yield* elapse(61)
      assert.isTrue((yield* rateWithin(other.digest, { grant: 7 })).accepted)
    }))

  it.effect("what one limit refuses costs nothing of the others", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const { digest, grant } = yield* freshKey({ userId })
      const other = yield* newKey(grant.id, { userId })
      const limits = { credential: 5, user: 9, grant: 3 }
      const left = Effect.fnUntraced(function*(limit: keyof RateLimits) {
        // Reads a single limit, and takes a slot itself.
        return (yield* rateWithin(digest, { [limit]: limits[limit] })).remaining
      })
      for (let i = 0; i < 3; i++) assert.isTrue((yield* rateWithin(digest, limits)).accepted)
      for (const key of [digest, digest, other.digest]) assert.isFalse((yield* rateWithin(key, limits)).accepted)
      assert.strictEqual(yield* left("credential"), 1)
      assert.strictEqual(yield* left("user"), 4)
      assert.strictEqual((yield* rateWithin(other.digest, { credential: 5 })).remaining, 4)
    }))

  it.effect("tells of the limit that has the fewest left", () =>
    Effect.gen(function*() {
      const { digest } = yield* freshKey({ userId: yield* newUser })
      const told = Effect.fnUntraced(function*(limits: RateLimits) {
        const { accepted, limit, remaining } = yield* rateWithin(digest, limits)
        return [accepted, limit, remaining]
      })
      assert.deepStrictEqual(yield* told({ credential: 10, user: 20, grant: 30 }), [true, "credential", 9])
      assert.deepStrictEqual(yield* told({ credential: 10, user: 6, grant: 30 }), [true, "user", 4])
      assert.deepStrictEqual(yield* told({ credential: 10, user: 20, grant: 4 }), [true, "grant", 1])
      assert.deepStrictEqual(yield* told({ credential: 10, user: 3, grant: 30 }), [false, "user", 0])
    }))

  it.effect("treats an expired key like a key that never existed, from the instant it expires", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const fixture = yield* AccessFixture
      const expiresAt = DateTime.add(yield* fixture.now, { minutes: 1 })
      const { digest, grant, record } = yield* freshKey({ expiresAt })
      const other = yield* newKey(grant.id)
      assert.deepStrictEqual(record.expiresAt, expiresAt)
      assert.deepStrictEqual((yield* store.listKeys(grant.id)).find(({ id }) => id === record.id)?.expiresAt, expiresAt)
      assert.isNotNull(yield* admit(digest))
      assert.deepStrictEqual(yield* store.stillGood([record.id]), new Set([record.id]))
      yield* elapse(60)
      assert.isNull(yield* admit(digest))
      assert.deepStrictEqual(yield* store.stillGood([record.id, other.record.id]), new Set([other.record.id]))
      assert.isNotNull(yield* admit(other.digest))
    }))
}

const goodKeysAndAudit = (it: Writer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture>) => {
  it.effect("knows a key whose user is no active member, but does not call it good until the user is added again", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const userId = `user_${yield* (yield* Ids).ulid}`
      yield* members.addUser({ id: userId, name: "Ada", email: null, githubLogin: null, createdAt: at })
      const { digest, grant, record } = yield* freshKey({ userId })
      const other = yield* newKey(grant.id)
      const isActive = Effect.map(admit(digest), (admission) => admission?.memberActive)
      const good = store.stillGood([record.id, other.record.id])
      assert.isFalse(yield* isActive)
      yield* members.addMember(organizationId, userId, "member", at)
      assert.isTrue(yield* isActive)
      assert.deepStrictEqual(yield* good, new Set([record.id, other.record.id]))
      yield* members.removeMember(organizationId, userId, at)
      assert.isFalse(yield* isActive)
      assert.deepStrictEqual(yield* good, new Set([other.record.id]))
      assert.isTrue((yield* admit(other.digest))?.memberActive)
      yield* members.addMember(organizationId, userId, "member", at)
      assert.isTrue(yield* isActive)
    }))

  it.effect("gives the key of a viewer rights that only read, and all rights again when the user is a member again", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const userId = `user_${yield* (yield* Ids).ulid}`
      yield* members.addUser({ id: userId, name: "Ada", email: null, githubLogin: null, createdAt: at })
      const { digest, record } = yield* freshKey({ userId, scopes: ["sandboxes", "webhooks"] })
      const rights = Effect.map(admit(digest), (admission) => [admission?.memberActive, [...admission?.principal.scopes ?? []]])
      for (
        const [role, scopes] of [["viewer", ["sandboxes:read"]], ["member", ["sandboxes", "webhooks"]], ["viewer", [
          "sandboxes:read"
        ]]] as const
      ) {
        yield* members.addMember(organizationId, userId, role, at)
        assert.deepStrictEqual(yield* rights, [true, [...scopes]])
        assert.deepStrictEqual(yield* store.stillGood([record.id]), new Set([record.id]))
      }
      yield* members.removeMember(organizationId, userId, at)
      assert.isFalse((yield* admit(digest))?.memberActive)
      assert.deepStrictEqual(yield* store.stillGood([record.id]), new Set())
    }))

  it.effect("knows the keys of a suspended organization, but does not call them good until it is resumed", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const { digest, record } = yield* freshKey()
      yield* members.suspend(organizationId, true, at)
      const suspended = yield* admit(digest)
      const good = yield* store.stillGood([record.id])
      yield* members.suspend(organizationId, false, at)
      assert.deepStrictEqual([suspended?.memberActive, suspended?.organizationSuspended], [true, true])
      assert.deepStrictEqual(good, new Set())
      assert.isFalse((yield* admit(digest))?.organizationSuspended)
      assert.deepStrictEqual(yield* store.stillGood([record.id]), new Set([record.id]))
    }))

  it.effect("tells the audit log of minting, of a key's first use however many there are at once, and of revoking, once each", () =>
    Effect.gen(function*() {
      const store = yield* AccessStore
      const { userId } = yield* (yield* MemberStore).owner
      const { grant } = yield* newGrant()
      const grantId = grant.id
      let keyId = ""
      const told = yield* appended(Effect.gen(function*() {
        const { digest, record } = yield* newKey(grantId)
        keyId = record.id
        yield* Effect.replicateEffect(admit(digest), 8, { concurrency: "unbounded" })
        yield* store.revokeKey(record.id, later)
        yield* store.revokeKey(record.id, at)
        yield* store.revokeGrant(grantId, later)
        yield* store.revokeGrant(grantId, at)
      }))
      assert.deepStrictEqual(told.map(({ action, subjects }) => ({ action, subjects })), [
        { action: "key.minted", subjects: { keyId, grantId, userId } },
        { action: "key.first_used", subjects: { keyId, grantId } },
        { action: "key.revoked", subjects: { keyId, grantId } },
        { action: "grant.revoked", subjects: { grantId } }
      ])
      assert.deepStrictEqual([told[0]?.at, told[2]?.at, told[3]?.at], [at, later, later])
    }))
}

/** For every store. */
export const suite = (name: string, layer: Layer.Layer<AccessStore | MemberStore | AuditLog | Ids | AccessFixture, unknown>) =>
  define(`AccessStore (${name})`, layer, (it) => {
    grants(it)
    branchRules(it)
    keyLists(it)
    admission(it)
    rateLimits(it)
    rateLimitChanges(it)
    sharedLimits(it)
    goodKeysAndAudit(it)
  })
