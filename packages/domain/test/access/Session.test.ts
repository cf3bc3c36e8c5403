import { assert, describe, it } from "@effect/vitest"
import {
  admitted,
  expiresAt,
  isAlive,
  LINK_LIFE,
  needsTouch,
  type Place,
  principalOf,
  SessionLifetimes
} from "@slipway/domain/access/rules/Session"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"

const began = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const after = (duration: Duration.Input) => DateTime.addDuration(began, duration)
const lifetimes = Effect.runSync(Effect.gen(function*() {
  return yield* SessionLifetimes
}))
const seen = (lastSeenAt: DateTime.Utc) => ({
  id: "s",
  userId: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV",
  provider: null,
  createdAt: began,
  lastSeenAt
})

describe("a session", () => {
  it("lasts 12 hours without a request, unless it is told otherwise", () => {
    assert.deepStrictEqual(expiresAt(seen(began), lifetimes), after("12 hours"))
    assert.deepStrictEqual(expiresAt(seen(after("1 day")), lifetimes), after("36 hours"))
    assert.deepStrictEqual(expiresAt(seen(began), { ...lifetimes, idle: Duration.minutes(5) }), after("5 minutes"))
  })

  it("lasts 14 days whatever was requested, unless it is told otherwise", () => {
    assert.deepStrictEqual(expiresAt(seen(after("13 days")), lifetimes), after(Duration.hours(13 * 24 + 12)))
    assert.deepStrictEqual(expiresAt(seen(after(Duration.hours(13 * 24 + 13))), lifetimes), after("14 days"))
    assert.deepStrictEqual(expiresAt(seen(began), { ...lifetimes, absolute: Duration.minutes(5) }), after("5 minutes"))
  })

  it("lasts 12 hours after a sign-in with OpenID Connect, whatever was requested, unless it is told otherwise", () => {
    const oidc = { ...seen(after("11 hours")), provider: "oidc" as const }
    assert.deepStrictEqual(expiresAt(oidc, lifetimes), after("12 hours"))
    assert.deepStrictEqual(expiresAt({ ...oidc, provider: "github" }, lifetimes), after("23 hours"))
    assert.deepStrictEqual(expiresAt(oidc, { ...lifetimes, oidc: Duration.hours(1) }), after("1 hour"))
    assert.deepStrictEqual(expiresAt(oidc, { ...lifetimes, absolute: Duration.hours(2) }), after("2 hours"))
  })

  it("is alive up to the millisecond before it expires", () => {
    assert.isTrue(isAlive(seen(began), lifetimes, began))
    assert.isTrue(isAlive(seen(began), lifetimes, DateTime.subtract(after("12 hours"), { milliseconds: 1 })))
    assert.isFalse(isAlive(seen(began), lifetimes, after("12 hours")))
    assert.isFalse(isAlive(seen(began), lifetimes, after("1 day")))
  })

  it("is written as seen once a minute at most", () => {
    assert.isFalse(needsTouch(seen(began), began))
    assert.isFalse(needsTouch(seen(began), after("59999 millis")))
    assert.isTrue(needsTouch(seen(began), after("60000 millis")))
    assert.isFalse(needsTouch(seen(began), DateTime.subtract(began, { hours: 1 })))
  })
})

describe("a visit", () => {
  const session = seen(began)
  const user = { id: session.userId, name: "Ada", email: null, githubLogin: "ada", createdAt: began, approvedAt: began }
  const place: Place = { grantId: "g", organizationId: "o", role: "owner", organizationSuspended: false }

  it("of an approved person with a grant has the rights that the person may give to a key", () => {
    const visit = Result.getOrThrow(admitted({ session, user, place }))
    assert.deepStrictEqual(visit, { session, user, place })
    assert.deepStrictEqual(principalOf(visit), {
      credential: { _tag: "Session", sessionId: "s" },
      grantId: "g",
      organizationId: "o",
      userId: user.id,
      scopes: new Set<Scope>(["sandboxes", "sandboxes:delete", "webhooks", "secrets", "automations"]),
      test: false
    })
    assert.deepStrictEqual([...principalOf({ ...visit, place: { ...place, role: "member" } }).scopes], ["sandboxes"])
  })

  it.each([
    ["An administrator has to approve you first.", { user: { ...user, approvedAt: null }, place: null }],
    ["You are no active member of an organization that has a grant.", { user, place: null }],
    ["Your organization is suspended.", { user, place: { ...place, organizationSuspended: true } }]
  ])("is refused: %s", (message, facts) => {
    const refused = admitted({ session, ...facts })
    assert.strictEqual(Result.isFailure(refused) && refused.failure.message, message)
  })
})

describe("a sign-in link", () => {
  it("lasts 10 minutes", () => assert.strictEqual(Duration.toMillis(LINK_LIFE), 600_000))
})
