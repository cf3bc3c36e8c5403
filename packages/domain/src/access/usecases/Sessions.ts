/** Use cases of people who sign in. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Ids } from "../../ids/Ids.ts"
import { Hints } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { GrantNotFound, type RateSlot } from "../ports/AccessStore.ts"
import { Acting } from "../ports/AuditLog.ts"
import { SignInRefused } from "../ports/IdentityProvider.ts"
import { MemberStore } from "../ports/MemberStore.ts"
import { type OwnGrant, type SessionRateLimits, SessionStore } from "../ports/SessionStore.ts"
import type { Entry } from "../rules/Entry.ts"
import type { Identity, ProviderId } from "../rules/Identity.ts"
import { draw } from "../rules/Secret.ts"
import { isAlive, LINK_LIFE, needsTouch, type Session, SessionLifetimes, type Visit } from "../rules/Session.ts"
import type { Role, User } from "../rules/User.ts"
import { REVOCATIONS } from "./Access.ts"

/** A session that began. This is the only time that its token can be read. */
export interface SignedIn {
  readonly session: Session
  /** The value of the browser's cookie: 256 random bits. */
  readonly token: Redacted.Redacted
}

interface Stores {
  readonly store: SessionStore["Service"]
  readonly members: MemberStore["Service"]
}

/** The user loses the sessions, and the role that the provider gave. */
const turnAway = Effect.fnUntraced(function*(
  { members, store }: Stores,
  identity: Identity,
  { leaves }: Extract<Entry, { readonly _tag: "Refused" }>
) {
  const user = yield* members.findBound(identity)
  if (user === null) return
  const at = yield* DateTime.now
  const { organizationId } = yield* members.owner
  const isMember = (yield* members.members(organizationId)).some((member) => member.active && member.user.id === user.id)
  if (leaves && isMember) yield* Effect.catchTag(members.removeMember(organizationId, user.id, at), "MemberNotFound", Effect.die)
  yield* store.endAll(user.id, at)
}, Effect.provideService(Acting, { _tag: "System" }))

/** The user is approved and has the role, as if an administrator had said so. A second call finishes what the first one left. */
const giveRole = Effect.fnUntraced(function*({ members }: Stores, user: User, role: Role, at: DateTime.Utc) {
  const { organizationId } = yield* members.owner
  const member = (yield* members.members(organizationId)).find((member) => member.user.id === user.id)
  if (user.approvedAt === null) yield* Effect.catchTag(members.approve(user.id, true, at), "UserNotFound", Effect.die)
  if (member?.active !== true || member.role !== role) yield* members.addMember(organizationId, user.id, role, at)
}, Effect.provideService(Acting, { _tag: "System" }))

/**
 * Sessions of people, one-time sign-in links and tickets. Tokens come from a browser, so any text may be one. The end of a session takes
 * effect on the next request of any process.
 */
export class Sessions extends Context.Service<Sessions, {
  /** Starts a session with a new token. `previous`, the browser's token until now, stops working. */
  signIn(userId: string, previous: Redacted.Redacted | null): Effect.Effect<SignedIn, StoreUnavailable>
  /**
   * Returns the visit of a request with this token, records the time, and takes a slot of each limit. `null`: the session is unknown or
   * expired.
   */
  admit(
    token: Redacted.Redacted,
    limits: SessionRateLimits
  ): Effect.Effect<{ readonly visit: Visit; readonly rate: RateSlot } | null, StoreUnavailable>
  /** The session ids, grants and roles of these visits that `admit` would still accept. For streams that stay open. */
  stillThere(visits: ReadonlyArray<{ readonly sessionId: string; readonly grantId: string }>): Effect.Effect<
    ReadonlyArray<{ readonly sessionId: string; readonly grantId: string; readonly role: Role }>,
    StoreUnavailable
  >
  /** The grants that a person can use, oldest first. */
  grantsOf(userId: string): Effect.Effect<ReadonlyArray<OwnGrant>, StoreUnavailable>
  /** Chooses the grant that the session uses from now on. Its user must have the grant. */
  chooseGrant(session: Session, grantId: string): Effect.Effect<OwnGrant, GrantNotFound | StoreUnavailable>
  /** A token that proves that a form came from a page of the session. The session token cannot be computed from it. */
  csrfToken(token: Redacted.Redacted): Redacted.Redacted
  isCsrfToken(token: Redacted.Redacted, candidate: string): boolean
  signOut(token: Redacted.Redacted): Effect.Effect<void, StoreUnavailable>
  /** Ends every session of the user and returns their number. */
  signOutEverywhere(userId: string): Effect.Effect<number, StoreUnavailable>
  /** The secret of a link that signs the user in once within `LINK_LIFE`. */
  makeLink(userId: string): Effect.Effect<Redacted.Redacted, StoreUnavailable>
  /** A new secret for `useTicket`. */
  makeTicket(life: Duration.Duration): Effect.Effect<Redacted.Redacted, StoreUnavailable>
  /** Whether the ticket is genuine and this is its first use within its life, in any process. */
  useTicket(ticket: Redacted.Redacted): Effect.Effect<boolean, StoreUnavailable>
  /** Signs in like `signIn`. `null`: the link is unknown, used or expired. */
  signInByLink(link: Redacted.Redacted, previous: Redacted.Redacted | null): Effect.Effect<SignedIn | null, StoreUnavailable>
  /**
   * Signs in like `signIn`, as the user that `recognize` finds, with the role that the provider gives. Without one the user may be
   * unapproved and without any membership. A person whom the provider's rules refuse loses all sessions, and the role that it gave.
   */
  signInByIdentity(identity: Identity, previous: Redacted.Redacted | null): Effect.Effect<SignedIn, SignInRefused | StoreUnavailable>
}>()("@slipway/domain/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function*() {
      const store = yield* SessionStore
      const members = yield* MemberStore
      const ids = yield* Ids
      const lifetimes = yield* SessionLifetimes
      const hints = yield* Hints
      const digest = (secret: Redacted.Redacted) => ids.digest(Redacted.value(secret))
      const csrfToken = (token: Redacted.Redacted) => ids.digest(`csrf ${Redacted.value(token)}`)

      const signIn = Effect.fn("Sessions.signIn")(function*(
        userId: string,
        previous: Redacted.Redacted | null,
        provider: ProviderId | null = null
      ) {
        const now = yield* DateTime.now
        const token = Redacted.make(yield* draw(ids))
        const session: Session = { id: yield* ids.uuid7, userId, provider, createdAt: now, lastSeenAt: now }
        yield* store.start(session, digest(token), {
          replaces: previous === null ? null : digest(previous),
          staleBefore: DateTime.subtractDuration(now, lifetimes.absolute)
        }).pipe(Effect.provideService(Acting, { _tag: "User", userId }))
        return { session, token }
      })

      return Sessions.of({
        signIn: (userId, previous) => signIn(userId, previous),
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
          return there.filter(({ session }) => isAlive(session, lifetimes, now)).map(({ grantId, role, session }) => ({
            sessionId: session.id,
            grantId,
            role
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
        // Compares digests, so that the duration of the comparison reveals nothing about the tokens.
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
        makeTicket: Effect.fn("Sessions.makeTicket")(function*(life) {
          const ticket = Redacted.make(yield* draw(ids))
          yield* store.makeTicket(digest(ticket), life)
          return ticket
        }),
        useTicket: (ticket) => store.useTicket(digest(ticket)),
        signInByLink: Effect.fn("Sessions.signInByLink")(function*(link, previous) {
          const userId = yield* store.useLink(digest(link), yield* DateTime.now)
          return userId === null ? null : yield* signIn(userId, previous)
        }),
        signInByIdentity: Effect.fn("Sessions.signInByIdentity")(function*(identity, previous) {
          const { entry, provider } = identity
          if (entry._tag === "Refused") {
            yield* turnAway({ members, store }, identity, entry)
            yield* hints.publish([REVOCATIONS])
            return yield* new SignInRefused({ detail: entry.detail })
          }
          const at = yield* DateTime.now
          const user = yield* members.recognize(identity, { id: `user_${yield* ids.ulid}`, at })
          if (entry._tag === "InRole") yield* giveRole({ members, store }, user, entry.role, at)
          return yield* signIn(user.id, previous, provider)
        })
      })
    })
  )
}
