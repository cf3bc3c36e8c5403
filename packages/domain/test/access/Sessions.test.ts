import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { MemberStore } from "@slipway/domain/access/MemberStore"
import { Sessions } from "@slipway/domain/access/Sessions"
import { SessionStore } from "@slipway/domain/access/SessionStore"
import { Ids } from "@slipway/domain/Ids"

const USER = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV"
const layer = Sessions.layer.pipe(Layer.provideMerge(SessionStore.layerMemory), Layer.provideMerge(MemberStore.layerMemory), Layer.provideMerge(Ids.layerMemory))

/** Which of the tokens are those of a session now. */
const known = Effect.fnUntraced(function*(...tokens: ReadonlyArray<Redacted.Redacted>) {
  const sessions = yield* Sessions
  return yield* Effect.forEach(tokens, (token) => Effect.map(sessions.current(token), (session) => session !== null))
})

it.effect("every sign-in has a token of its own, of 256 bits, and ends that of the same browser", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const phone = yield* sessions.signIn(USER, null)
    const laptop = yield* sessions.signIn(USER, null)
    const again = yield* sessions.signIn(USER, laptop.token)
    assert.match(Redacted.value(again.token), /^[0-9A-Za-z]{43}$/u)
    assert.strictEqual(new Set([phone, laptop, again].map(({ token }) => Redacted.value(token))).size, 3)
    assert.deepStrictEqual(yield* known(phone.token, laptop.token, again.token), [true, false, true])
    assert.deepStrictEqual(yield* sessions.current(again.token), again.session)
    assert.isNull(yield* sessions.current(Redacted.make("")))
    const [last] = yield* (yield* AuditLog).list({ since: null, limit: 1 })
    assert.deepStrictEqual([last?.action, last?.actor], ["session.started", { _tag: "User", userId: USER }])
  }).pipe(Effect.provide(layer)))

it.effect("a session that is used lives on for 14 days, one that is not for 12 hours", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const idle = yield* sessions.signIn(USER, null)
    const used = yield* sessions.signIn(USER, null)
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
    const store = yield* SessionStore
    const ids = yield* Ids
    const { session, token } = yield* sessions.signIn(USER, null)
    const stored = store.find(ids.digest(Redacted.value(token)))
    yield* TestClock.adjust("59 seconds")
    assert.deepStrictEqual(yield* sessions.current(token), session)
    assert.deepStrictEqual(yield* stored, session)
    yield* TestClock.adjust("1 second")
    const seen = yield* sessions.current(token)
    assert.strictEqual(seen?.lastSeenAt.epochMilliseconds, session.createdAt.epochMilliseconds + 60_000)
    assert.deepStrictEqual(yield* stored, seen)
  }).pipe(Effect.provide(layer)))

it.effect("signing out ends one session, signing out everywhere all of the user's", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const [a, b, c] = yield* Effect.all([sessions.signIn(USER, null), sessions.signIn(USER, null), sessions.signIn(USER, null)])
    const other = yield* sessions.signIn(`${USER.slice(0, -1)}W`, null)
    yield* sessions.signOut(a.token)
    yield* sessions.signOut(a.token)
    assert.deepStrictEqual(yield* known(a.token, b.token, c.token, other.token), [false, true, true, true])
    assert.strictEqual(yield* sessions.signOutEverywhere(USER), 2)
    assert.deepStrictEqual(yield* known(b.token, c.token, other.token), [false, false, true])
  }).pipe(Effect.provide(layer)))

it.effect("a CSRF token is that of its session alone, and neither the token nor what is stored of it", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const ids = yield* Ids
    const [mine, other] = yield* Effect.all([sessions.signIn(USER, null), sessions.signIn(USER, null)])
    const csrf = Redacted.value(sessions.csrfToken(mine.token))
    assert.strictEqual(csrf, Redacted.value(sessions.csrfToken(mine.token)))
    assert.isTrue(sessions.isCsrfToken(mine.token, csrf))
    assert.isFalse(sessions.isCsrfToken(other.token, csrf))
    for (const wrong of ["", Redacted.value(mine.token), ids.digest(Redacted.value(mine.token)), csrf.toUpperCase(), `${csrf} `]) {
      assert.isFalse(sessions.isCsrfToken(mine.token, wrong))
    }
  }).pipe(Effect.provide(layer)))

it.effect("a link signs in once, within 10 minutes, under a new token", () =>
  Effect.gen(function*() {
    const sessions = yield* Sessions
    const before = yield* sessions.signIn(USER, null)
    const link = yield* sessions.makeLink(USER)
    const late = yield* sessions.makeLink(USER)
    assert.match(Redacted.value(link), /^[0-9A-Za-z]{43}$/u)
    assert.isNull(yield* sessions.current(link))
    yield* TestClock.adjust("599999 millis")
    const signedIn = yield* sessions.signInByLink(link, before.token)
    assert.isNotNull(signedIn)
    assert.strictEqual(signedIn.session.userId, USER)
    assert.deepStrictEqual(yield* known(before.token, signedIn.token), [false, true])
    assert.isNull(yield* sessions.signInByLink(link, signedIn.token))
    assert.deepStrictEqual(yield* known(signedIn.token), [true])
    yield* TestClock.adjust("1 milli")
    assert.isNull(yield* sessions.signInByLink(late, null))
  }).pipe(Effect.provide(layer)))
