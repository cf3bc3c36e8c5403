/** Use cases of people who sign in. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Ids } from "../../ids/Ids.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { GrantNotFound, type RateSlot } from "../ports/AccessStore.ts"
import { Acting } from "../ports/AuditLog.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { type OwnGrant, type SessionRateLimits, SessionStore } from "../ports/SessionStore.ts"
import type { Identity } from "../rules/Identity.ts"
import { draw } from "../rules/Secret.ts"
import { isAlive, LINK_LIFE, needsTouch, type Session, SessionLifetimes, type Visit } from "../rules/Session.ts"

/** A session that began, with the one chance to read its token. */
export interface SignedIn {
  readonly session: Session
  /** For the browser's cookie: 256 random bits. */
  readonly token: Redacted.Redacted
}

/**
 * Sessions of people, and one-time links that start them. Tokens come from a browser, so any text may be one. What ends
 * a session works on the next request of any process.
 */
export class Sessions extends Context.Service<Sessions, {
  /** Always under a new token; `previous`, the token the browser had until then, works no more. */
  signIn(userId: string, previous: Redacted.Redacted | null): Effect.Effect<SignedIn, StoreUnavailable>
  /** What a request with the token comes to, that it was seen now, and a slot of each of the limits. `null`: no session, or it expired. */
  admit(
    token: Redacted.Redacted,
    limits: SessionRateLimits
  ): Effect.Effect<{ readonly visit: Visit; readonly rate: RateSlot } | null, StoreUnavailable>
  /** Of these, the session ids and grants that `admit` would still give. For streams that stay open. */
  stillThere(visits: ReadonlyArray<{ readonly sessionId: string; readonly grantId: string }>): Effect.Effect<
    ReadonlyArray<{ readonly sessionId: string; readonly grantId: string }>,
    StoreUnavailable
  >
  /** The grants a person may work in, oldest first. */
  grantsOf(userId: string): Effect.Effect<ReadonlyArray<OwnGrant>, StoreUnavailable>
  /** The session works in this grant from now on, if its user has it. */
  chooseGrant(session: Session, grantId: string): Effect.Effect<OwnGrant, GrantNotFound | StoreUnavailable>
  /** Proves that a form came from a page of the session. It cannot be turned back into the token. */
  csrfToken(token: Redacted.Redacted): Redacted.Redacted
  isCsrfToken(token: Redacted.Redacted, candidate: string): boolean
  signOut(token: Redacted.Redacted): Effect.Effect<void, StoreUnavailable>
  /** Ends every session of the user; how many there were. */
  signOutEverywhere(userId: string): Effect.Effect<number, StoreUnavailable>
  /** The secret of a link that signs the user in once, within 10 minutes. */
  makeLink(userId: string): Effect.Effect<Redacted.Redacted, StoreUnavailable>
  /** As `signIn`. `null`: the link is unknown, used or expired. */
  signInByLink(link: Redacted.Redacted, previous: Redacted.Redacted | null): Effect.Effect<SignedIn | null, StoreUnavailable>
  /** As `signIn`, for the user that the identity is: see `recognize`. It may be one who is not approved and a member of nothing. */
  signInByIdentity(identity: Identity, previous: Redacted.Redacted | null): Effect.Effect<SignedIn, StoreUnavailable>
}>()("@slipway/domain/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function*() {
      const store = yield* SessionStore
      const members = yield* MemberStore
      const ids = yield* Ids
      const lifetimes = yield* SessionLifetimes
      const digest = (secret: Redacted.Redacted) => ids.digest(Redacted.value(secret))
      const csrfToken = (token: Redacted.Redacted) => ids.digest(`csrf ${Redacted.value(token)}`)

      const signIn = Effect.fn("Sessions.signIn")(function*(userId: string, previous: Redacted.Redacted | null) {
        const now = yield* DateTime.now
        const token = Redacted.make(yield* draw(ids))
        const session: Session = { id: yield* ids.uuid7, userId, createdAt: now, lastSeenAt: now }
        yield* store.start(session, digest(token), {
          replaces: previous === null ? null : digest(previous),
          staleBefore: DateTime.subtractDuration(now, lifetimes.absolute)
        }).pipe(Effect.provideService(Acting, { _tag: "User", userId }))
        return { session, token }
      })

      return Sessions.of({
        signIn,
        admit: Effect.fn("Sessions.admit")(function*(token, limits) {
          const now = yield* DateTime.now
          const found = yield* store.admit(digest(token), limits)
          if (found === null || !isAlive(found.visit.session, lifetimes, now)) return null
          const { visit: { session, ...visit }, rate } = found
          if (!needsTouch(session, now)) return found
          yield* store.touch(session.id, now)
          return { visit: { ...visit, session: { ...session, lastSeenAt: now } }, rate }
        }),
        stillThere: Effect.fnUntraced(function*(visits) {
          const now = yield* DateTime.now
          const there = yield* store.stillThere(visits)
          return there.filter(({ session }) => isAlive(session, lifetimes, now)).map(({ grantId, session }) => ({
            sessionId: session.id,
            grantId
          }))
        }),
        grantsOf: store.grantsOf,
        chooseGrant: Effect.fn("Sessions.chooseGrant")(function*({ id, userId }, grantId) {
          const grant = (yield* store.grantsOf(userId)).find((grant) => grant.id === grantId)
          if (grant === undefined) return yield* new GrantNotFound({ grant: grantId })
          yield* store.chooseGrant(id, grantId)
          return grant
        }),
        csrfToken: (token) => Redacted.make(csrfToken(token)),
        // Of digests, so that the time a comparison takes tells nothing of what it compares.
        isCsrfToken: (token, candidate) => ids.digest(candidate) === ids.digest(csrfToken(token)),
        signOut: Effect.fn("Sessions.signOut")(function*(token) {
          yield* store.end(digest(token), yield* DateTime.now)
        }),
        signOutEverywhere: Effect.fn("Sessions.signOutEverywhere")(function*(userId) {
          return yield* store.endAll(userId, yield* DateTime.now)
        }),
        makeLink: Effect.fn("Sessions.makeLink")(function*(userId) {
          const link = Redacted.make(yield* draw(ids))
          yield* store.makeLink({ userId, at: yield* DateTime.now, life: LINK_LIFE }, digest(link))
          return link
        }),
        signInByLink: Effect.fn("Sessions.signInByLink")(function*(link, previous) {
          const userId = yield* store.useLink(digest(link), yield* DateTime.now)
          return userId === null ? null : yield* signIn(userId, previous)
        }),
        signInByIdentity: Effect.fn("Sessions.signInByIdentity")(function*(identity, previous) {
          const fresh = { id: `user_${yield* ids.ulid}`, at: yield* DateTime.now }
          return yield* signIn((yield* members.recognize(identity, fresh)).id, previous)
        })
      })
    })
  )
}
