import { assert, it } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { SessionStore } from "@slipway/domain/access/ports/SessionStore"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Ids } from "@slipway/domain/ids/Ids"
import * as MemberStoreMemory from "@slipway/domain/memory/access/MemberStoreMemory"
import * as SessionStoreMemory from "@slipway/domain/memory/access/SessionStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"

const layer = Sessions.layer.pipe(
  Layer.provideMerge(SessionStoreMemory.layer),
  Layer.provideMerge(MemberStoreMemory.layer),
  Layer.provide(HintsMemory.layer),
  Layer.provideMerge(IdsMemory.layer)
)

const LIMITS = { credential: 1000, user: 1000 }

const owner = Effect.flatMap(MemberStore, ({ owner }) => owner)
const somebodyElse = Effect.gen(function*() {
  const id = `user_${yield* (yield* Ids).ulid}`
  return yield* (yield* MemberStore).addUser({ id, name: "Ada", email: null, githubLogin: "ada", createdAt: yield* DateTime.now })
})

/** The session of a token now. */
const current = Effect.fnUntraced(function*(token: Redacted.Redacted) {
  return (yield* (yield* Sessions).admit(token, LIMITS))?.visit.session ?? null
})

/** Which of the tokens are those of a session now. */
const known = Effect.fnUntraced(function*(...tokens: ReadonlyArray<Redacted.Redacted>) {
  return yield* Effect.forEach(tokens, (token) => Effect.map(current(token), (session) => session !== null))
})

it.effect("every sign-in has a token of its own, of 256 bits, and ends that of the same browser", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const phone = yield* sessions.signIn(userId, null)
    const laptop = yield* sessions.signIn(userId, null)
    const again = yield* sessions.signIn(userId, laptop.token)
    assert.match(Redacted.value(again.token), /^[0-9A-Za-z]{43}$/u)
    assert.strictEqual(new Set([phone, laptop, again].map(({ token }) => Redacted.value(token))).size, 3)
    assert.deepStrictEqual(yield* known(phone.token, laptop.token, again.token), [true, false, true])
    assert.deepStrictEqual(yield* current(again.token), again.session)
    assert.isNull(yield* current(Redacted.make("")))
    const [last] = yield* (yield* AuditLog).list({ since: null, limit: 1 })
    assert.deepStrictEqual([last?.action, last?.actor], ["session.started", { _tag: "User", userId }])
  }).pipe(Effect.provide(layer)))

it.effect("a used session lives for 14 days, an unused session for 12 hours", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const idle = yield* sessions.signIn(userId, null)
    const used = yield* sessions.signIn(userId, null)
    yield* TestClock.adjust("11 hours")
    assert.deepStrictEqual(yield* known(used.token), [true])
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* known(idle.token, used.token), [false, true])
    for (let hours = 12; hours < 14 * 24 - 6; hours += 6) {
      yield* TestClock.adjust("6 hours")
      assert.deepStrictEqual(yield* known(used.token), [true])
    }
    yield* TestClock.adjust("6 hours")
    assert.deepStrictEqual(yield* known(used.token), [false])
  }).pipe(Effect.provide(layer)))

it.effect("requests of the same minute write nothing", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const store = yield* SessionStore
    const ids = yield* Ids
    const { session, token } = yield* sessions.signIn(userId, null)
    const stored = Effect.map(store.admit(ids.digest(Redacted.value(token)), LIMITS), (found) => found?.visit.session)
    yield* TestClock.adjust("59 seconds")
    assert.deepStrictEqual(yield* current(token), session)
    assert.deepStrictEqual(yield* stored, session)
    yield* TestClock.adjust("1 second")
    const seen = yield* current(token)
    assert.strictEqual(seen?.lastSeenAt.epochMilliseconds, session.createdAt.epochMilliseconds + 60_000)
    assert.deepStrictEqual(yield* stored, seen)
  }).pipe(Effect.provide(layer)))

it.effect("signing out ends one session, signing out everywhere all of the user's", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const [a, b, c] = yield* Effect.all([sessions.signIn(userId, null), sessions.signIn(userId, null), sessions.signIn(userId, null)])
    const other = yield* sessions.signIn((yield* somebodyElse).id, null)
    yield* sessions.signOut(a.token)
    yield* sessions.signOut(a.token)
    assert.deepStrictEqual(yield* known(a.token, b.token, c.token, other.token), [false, true, true, true])
    assert.strictEqual(yield* sessions.signOutEverywhere(userId), 2)
    assert.deepStrictEqual(yield* known(b.token, c.token, other.token), [false, false, true])
  }).pipe(Effect.provide(layer)))

it.effect("a CSRF token is that of its session alone, and neither the token nor what is stored of it", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const ids = yield* Ids
    const [mine, other] = yield* Effect.all([sessions.signIn(userId, null), sessions.signIn(userId, null)])
    const csrf = Redacted.value(sessions.csrfToken(mine.token))
    assert.strictEqual(csrf, Redacted.value(sessions.csrfToken(mine.token)))
    assert.isTrue(sessions.isCsrfToken(mine.token, csrf))
    assert.isFalse(sessions.isCsrfToken(other.token, csrf))
    for (const wrong of ["", Redacted.value(mine.token), ids.digest(Redacted.value(mine.token)), csrf.toUpperCase(), `${csrf} `]) {
      assert.isFalse(sessions.isCsrfToken(mine.token, wrong))
    }
  }).pipe(Effect.provide(layer)))

it.effect("a ticket counts once, within its life", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const [ticket, late] = [yield* sessions.makeTicket(Duration.seconds(30)), yield* sessions.makeTicket(Duration.seconds(30))]
    assert.match(Redacted.value(ticket), /^[0-9A-Za-z]{43}$/u)
    assert.notStrictEqual(Redacted.value(ticket), Redacted.value(late))
    yield* TestClock.adjust("29999 millis")
    assert.isTrue(yield* sessions.useTicket(ticket))
    assert.isFalse(yield* sessions.useTicket(ticket))
    yield* TestClock.adjust("1 milli")
    assert.isFalse(yield* sessions.useTicket(late))
    assert.isNull(yield* sessions.signInByLink(ticket, null))
  }).pipe(Effect.provide(layer)))

it.effect("a link signs in once, within 10 minutes, under a new token", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const { userId } = yield* owner
    const before = yield* sessions.signIn(userId, null)
    const link = yield* sessions.makeLink(userId)
    const late = yield* sessions.makeLink(userId)
    assert.match(Redacted.value(link), /^[0-9A-Za-z]{43}$/u)
    assert.isNull(yield* current(link))
    yield* TestClock.adjust("599999 millis")
    const signedIn = yield* sessions.signInByLink(link, before.token)
    assert.isNotNull(signedIn)
    assert.strictEqual(signedIn.session.userId, userId)
    assert.deepStrictEqual(yield* known(before.token, signedIn.token), [false, true])
    assert.isNull(yield* sessions.signInByLink(link, signedIn.token))
    assert.deepStrictEqual(yield* known(signedIn.token), [true])
    yield* TestClock.adjust("1 milli")
    assert.isNull(yield* sessions.signInByLink(late, null))
  }).pipe(Effect.provide(layer)))
