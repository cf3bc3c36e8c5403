/**
 * The rules that every `SessionStore` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Fresh users make it repeatable on one database.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { type SessionRateLimits, SessionStore } from "@slipway/domain/access/ports/SessionStore"
import type { Session } from "@slipway/domain/access/rules/Session"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"
import { appended } from "./AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const later = DateTime.add(at, { minutes: 1 })
const MINUTE = Duration.minutes(1)

const newUser = Effect.gen(function*() {
  const id = `user_${yield* (yield* Ids).ulid}`
  return (yield* (yield* MemberStore).addUser({ id, name: "Ada", email: null, githubLogin: null, createdAt: at })).id
})

const newGrant = Effect.fnUntraced(function*(createdAt = at) {
  const id = yield* (yield* Ids).uuid7
  const { organizationId } = yield* (yield* MemberStore).owner
  return (yield* (yield* AccessStore).createGrant({ id, name: id, organizationId, createdAt })).grant
})

const newDigest = Effect.gen(function*() {
  const ids = yield* Ids
  return ids.digest(yield* ids.uuid7)
})

const start = Effect.fnUntraced(
  function*(
    userId: string,
    more: { readonly replaces?: string; readonly createdAt?: DateTime.Utc; readonly staleBefore?: DateTime.Utc } = {}
  ) {
    const createdAt = more.createdAt ?? at
    const digest = yield* newDigest
    const session: Session = { id: yield* (yield* Ids).uuid7, userId, provider: "oidc", createdAt, lastSeenAt: createdAt }
    yield* (yield* SessionStore).start(session, digest, {
      replaces: more.replaces ?? null,
      staleBefore: more.staleBefore ?? DateTime.subtract(at, { days: 14 })
    })
    return { digest, session }
  }
)

const PLENTY = 1_000_000
const admit = (digest: string, limits: Partial<SessionRateLimits> = {}) =>
  Effect.flatMap(SessionStore, (store) => store.admit(digest, { credential: PLENTY, user: PLENTY, ...limits }))
const find = (digest: string) => Effect.map(admit(digest), (found) => found?.visit.session ?? null)

const lifeOfSessions = (it: Writer<SessionStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("finds a session by its digest until it is ended, once", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const { digest, session } = yield* start(yield* newUser)
      assert.deepStrictEqual(yield* find(digest), session)
      assert.isNull(yield* find(yield* newDigest))
      assert.deepStrictEqual(yield* store.end(digest, later), session)
      assert.isNull(yield* find(digest))
      assert.isNull(yield* store.end(digest, later))
    }))

  it.effect("a new session ends the one it replaces and no other", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const phone = yield* start(userId)
      const laptop = yield* start(userId)
      const again = yield* start(userId, { replaces: laptop.digest })
      assert.isNull(yield* find(laptop.digest))
      assert.deepStrictEqual(yield* find(phone.digest), phone.session)
      assert.deepStrictEqual(yield* find(again.digest), again.session)
      yield* start(yield* newUser, { replaces: again.digest })
      assert.isNull(yield* find(again.digest))
    }))

  it.effect("a new session forgets the user's stale ones", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const stale = yield* start(userId)
      const fresh = yield* start(userId, { createdAt: later })
      const other = yield* start(yield* newUser)
      yield* start(userId, { createdAt: later, staleBefore: later })
      assert.deepStrictEqual(
        yield* Effect.forEach([stale, fresh, other], ({ digest }) => find(digest)),
        [null, fresh.session, other.session]
      )
    }))

  it.effect("when it was last seen moves forward and never back", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const userId = yield* newUser
      const { digest, session } = yield* start(userId)
      const other = yield* start(userId)
      yield* store.touch(session.id, later)
      assert.deepStrictEqual(yield* find(digest), { ...session, lastSeenAt: later })
      yield* store.touch(session.id, at)
      assert.deepStrictEqual(yield* find(digest), { ...session, lastSeenAt: later })
      assert.deepStrictEqual(yield* find(other.digest), other.session)
    }))

  it.effect("seeing a session that ended does not bring it back", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const { digest, session } = yield* start(yield* newUser)
      yield* store.end(digest, later)
      yield* store.touch(session.id, later)
      assert.isNull(yield* find(digest))
    }))

  it.effect("ends all sessions of a user, and of no other", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const userId = yield* newUser
      const mine = [yield* start(userId), yield* start(userId)]
      const other = yield* start(yield* newUser)
      assert.strictEqual(yield* store.endAll(userId, later), 2)
      assert.deepStrictEqual(yield* Effect.forEach(mine, ({ digest }) => find(digest)), [null, null])
      assert.deepStrictEqual(yield* find(other.digest), other.session)
      assert.strictEqual(yield* store.endAll(userId, later), 0)
    }))
}

const visitedGrants = (it: Writer<SessionStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("a visit is of the user, in the oldest grant of an organization where the user is active", () =>
    Effect.gen(function*() {
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const userId = yield* newUser
      const { digest, session } = yield* start(userId)
      assert.isNull((yield* admit(digest))?.visit.place)
      yield* newGrant()
      yield* members.addMember(organizationId, userId, "member", at)
      const visit = (yield* admit(digest))?.visit
      assert.deepStrictEqual([visit?.session, visit?.user.id, visit?.user.approvedAt], [session, userId, null])
      const oldest = (yield* (yield* AccessStore).listGrants).findLast(({ revokedAt }) => revokedAt === null)
      assert.deepStrictEqual(visit?.place, { grantId: oldest?.id ?? "", organizationId, role: "member", organizationSuspended: false })
      yield* members.addMember(organizationId, userId, "owner", at)
      assert.strictEqual((yield* admit(digest))?.visit.place?.role, "owner")
      yield* members.removeMember(organizationId, userId, at)
      assert.isNull((yield* admit(digest))?.visit.place)
    }))

  it.effect("a visit is in the grant that was chosen, until that is revoked", () =>
    Effect.gen(function*() {
      const access = yield* AccessStore
      const { userId } = yield* (yield* MemberStore).owner
      const { digest, session } = yield* start(userId)
      const grantId = Effect.map(admit(digest), (found) => found?.visit.place?.grantId)
      const other = yield* start(userId)
      yield* newGrant()
      const first = yield* grantId
      const grant = yield* newGrant(later)
      assert.strictEqual(yield* grantId, first)
      yield* (yield* SessionStore).chooseGrant(session.id, grant.id)
      assert.strictEqual(yield* grantId, grant.id)
      assert.strictEqual((yield* admit(other.digest))?.visit.place?.grantId, first)
      yield* access.revokeGrant(grant.id, later)
      assert.strictEqual(yield* grantId, first)
    }))

  it.effect("somebody has the grants of the organizations of which they are an active member, oldest first, until one is revoked", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const members = yield* MemberStore
      const [userId, stranger] = [yield* newUser, yield* newUser]
      const { organizationId } = yield* members.owner
      const [second, first] = [yield* newGrant(later), yield* newGrant(at)]
      const mine = Effect.map(
        store.grantsOf(userId),
        (grants) => grants.filter(({ id }) => id === first.id || id === second.id)
      )
      assert.isEmpty(yield* mine)
      yield* members.addMember(organizationId, userId, "member", at)
      assert.deepStrictEqual(yield* mine, [{ ...first, role: "member" }, { ...second, role: "member" }])
      yield* members.addMember(organizationId, userId, "owner", at)
      yield* (yield* AccessStore).revokeGrant(first.id, later)
      yield* members.suspend(organizationId, true, later)
      const suspended = yield* mine
      yield* members.suspend(organizationId, false, later)
      assert.deepStrictEqual(suspended, [{ ...second, role: "owner" }])
      assert.deepStrictEqual(yield* mine, [{ ...second, role: "owner" }])
      yield* members.removeMember(organizationId, userId, later)
      assert.isEmpty(yield* mine)
      assert.isEmpty(yield* store.grantsOf(stranger))
    }))

  it.effect("a session has a rate of its own", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const [mine, other] = [yield* start(userId), yield* start(userId)]
      const accepted = yield* Effect.forEach([1, 2, 3], () => admit(mine.digest, { credential: 2 }))
      assert.deepStrictEqual(accepted.map((found) => found?.rate.accepted), [true, true, false])
      assert.isTrue((yield* admit(other.digest, { credential: 2 }))?.rate.accepted)
      assert.isNull(yield* admit(yield* newDigest))
    }))
}

const limitsAndLinks = (it: Writer<SessionStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("all sessions of a user have one limit together, and the user's keys another one", () =>
    Effect.gen(function*() {
      const userId = yield* newUser
      const access = yield* AccessStore
      const grant = yield* newGrant()
      const digest = yield* newDigest
      const id = yield* (yield* Ids).uuid7
      const key = {
        id,
        grantId: grant.id,
        userId,
        label: "",
        prefix: "sbx_live_",
        last4: "aB3d",
        scopes: [],
        createdAt: at,
        expiresAt: null
      }
      yield* access.createKey(key, digest, 1)
      const byKey = Effect.map(access.admit(digest, { credential: PLENTY, user: 3, grant: PLENTY }), (found) => found?.rate.accepted)
      assert.deepStrictEqual(yield* Effect.replicateEffect(byKey, 4), [true, true, true, false])
      const sessions = [yield* start(userId), yield* start(userId)]
      const asked = Array.from({ length: 10 }, (_, i) => sessions[i % 2]!.digest)
      const slots = yield* Effect.forEach(asked, (digest) => Effect.map(admit(digest, { user: 3 }), (found) => found?.rate), {
        concurrency: "unbounded"
      })
      assert.strictEqual(slots.filter((rate) => rate?.accepted).length, 3)
      for (const rate of slots.filter((rate) => rate?.accepted === false)) assert.strictEqual(rate?.limit, "user")
      assert.isTrue((yield* admit((yield* start(yield* newUser)).digest, { user: 3 }))?.rate.accepted)
    }))

  it.effect("of open visits, those stay whose user is approved and still has the grant", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const members = yield* MemberStore
      const { organizationId } = yield* members.owner
      const [mine, other] = [yield* newGrant(), yield* newGrant()]
      const userId = yield* newUser
      const { digest, session } = yield* start(userId)
      const there = (...grantIds: ReadonlyArray<string>) =>
        Effect.map(store.stillThere(grantIds.map((grantId) => ({ sessionId: session.id, grantId }))), (there) =>
          there.map(({ grantId }) => grantId).sort())
      assert.deepStrictEqual(yield* there(mine.id), [])
      yield* members.addMember(organizationId, userId, "member", at)
      assert.deepStrictEqual(yield* there(mine.id), [])
      yield* members.approve(userId, true, at)
      assert.deepStrictEqual(yield* there(mine.id, other.id), [mine.id, other.id].sort())
      for (const role of ["viewer", "owner", "member"] as const) {
        yield* members.addMember(organizationId, userId, role, at)
        const found = yield* store.stillThere([{ sessionId: session.id, grantId: mine.id }])
        assert.deepStrictEqual(found, [{ session, grantId: mine.id, role }])
      }
      yield* (yield* AccessStore).revokeGrant(other.id, later)
      assert.deepStrictEqual(yield* there(mine.id, other.id), [mine.id])
      yield* members.suspend(organizationId, true, at)
      assert.deepStrictEqual(yield* there(mine.id), [])
      yield* members.suspend(organizationId, false, at)
      yield* members.removeMember(organizationId, userId, at)
      assert.deepStrictEqual(yield* there(mine.id), [])
      yield* members.addMember(organizationId, userId, "member", at)
      assert.deepStrictEqual(yield* there(mine.id), [mine.id])
      yield* store.end(digest, later)
      assert.deepStrictEqual(yield* there(mine.id), [])
    }))

  it.effect("a link is used by one of many who try at once", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const userId = yield* newUser
      const digest = yield* newDigest
      yield* store.makeLink({ userId, at, life: MINUTE }, digest)
      assert.isNull(yield* store.useLink(yield* newDigest, at))
      const used = yield* Effect.forEach(Array.from({ length: 8 }), () => store.useLink(digest, at), { concurrency: "unbounded" })
      assert.deepStrictEqual(used.filter((user) => user !== null), [userId])
      assert.isNull(yield* store.useLink(digest, at))
    }))

  it.effect("a link lives by the store's time: a caller's clock that is behind revives no link, a clock that is ahead ends no link", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const userId = yield* newUser
      const [over, good, next] = [yield* newDigest, yield* newDigest, yield* newDigest]
      const [behind, ahead] = [DateTime.subtract(at, { days: 10_000 }), DateTime.add(at, { days: 10_000 })]
      yield* store.makeLink({ userId, at, life: Duration.zero }, over)
      assert.isNull(yield* store.useLink(over, behind))
      yield* store.makeLink({ userId, at: behind, life: MINUTE }, good)
      yield* store.makeLink({ userId, at: ahead, life: MINUTE }, next)
      assert.strictEqual(yield* store.useLink(good, ahead), userId)
      assert.strictEqual(yield* store.useLink(next, behind), userId)
    }))
}

const tickets = (it: Writer<SessionStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("a ticket is used by one of many who try at once, and by no other afterwards", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const [digest, other] = [yield* newDigest, yield* newDigest]
      yield* store.makeTicket(digest, MINUTE)
      yield* store.makeTicket(other, MINUTE)
      assert.isFalse(yield* store.useTicket(yield* newDigest))
      const used = yield* Effect.forEach(Array.from({ length: 8 }), () => store.useTicket(digest), { concurrency: "unbounded" })
      assert.strictEqual(used.filter((one) => one).length, 1)
      assert.isFalse(yield* store.useTicket(digest))
      assert.isTrue(yield* store.useTicket(other))
    }))

  it.effect("a ticket is useless in the instant its life is over, and tickets of many processes are made at once", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const over = yield* newDigest
      yield* store.makeTicket(over, Duration.zero)
      assert.isFalse(yield* store.useTicket(over))
      const made = yield* Effect.replicateEffect(newDigest, 8)
      yield* Effect.forEach(made, (digest) => store.makeTicket(digest, MINUTE), { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* Effect.forEach(made, store.useTicket), made.map(() => true))
    }))

  it.effect("a ticket is no link, and a link no ticket", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const [ticket, link] = [yield* newDigest, yield* newDigest]
      yield* store.makeTicket(ticket, MINUTE)
      yield* store.makeLink({ userId: yield* newUser, at, life: MINUTE }, link)
      assert.isNull(yield* store.useLink(ticket, at))
      assert.isFalse(yield* store.useTicket(link))
    }))
}

const auditedSessions = (it: Writer<SessionStore | AccessStore | MemberStore | AuditLog | Ids>) => {
  it.effect("tells the audit log what started and ended, and what became of links, once each", () =>
    Effect.gen(function*() {
      const store = yield* SessionStore
      const userId = yield* newUser
      const link = yield* newDigest
      const started: Array<string> = []
      const told = yield* appended(Effect.gen(function*() {
        const first = yield* start(userId)
        const second = yield* start(userId, { replaces: first.digest })
        const third = yield* start(userId)
        const fourth = yield* start(userId)
        started.push(...[first, second, third, fourth].map(({ session }) => session.id))
        for (const digest of [third.digest, third.digest]) yield* store.end(digest, later)
        yield* store.end(second.digest, later)
        yield* store.endAll(userId, later)
        yield* store.endAll(userId, later)
        yield* store.makeLink({ userId, at, life: MINUTE }, link)
        yield* store.useLink(link, at)
        yield* store.useLink(link, at)
      }))
      const [first, second, third, fourth] = started
      const session = (action: string, at: DateTime.Utc, sessionId: string | undefined) => ({
        action,
        at,
        subjects: { sessionId, userId }
      })
      assert.deepStrictEqual<ReadonlyArray<unknown>>(told, [
        session("session.started", at, first),
        session("session.ended", at, first),
        session("session.started", at, second),
        session("session.started", at, third),
        session("session.started", at, fourth),
        session("session.ended", later, third),
        session("session.ended", later, second),
        session("session.ended", later, fourth),
        { action: "sign_in_link.made", at, subjects: { userId } },
        { action: "sign_in_link.used", at, subjects: { userId } }
      ])
    }))
}

export const suite = (name: string, layer: Layer.Layer<SessionStore | AccessStore | MemberStore | AuditLog | Ids, unknown>) =>
  define(`SessionStore (${name})`, layer, (it) => {
    lifeOfSessions(it)
    visitedGrants(it)
    limitsAndLinks(it)
    tickets(it)
    auditedSessions(it)
  })
