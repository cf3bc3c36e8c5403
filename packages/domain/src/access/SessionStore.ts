/** Port: sessions and one-time sign-in links. Checked by `testing/SessionStoreContract`. */
import { Context, DateTime, type Duration, Effect, Layer, Result } from "effect"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import { AccessStore, type RateLimits, type RateSlot, takeSlot, windowOf } from "./AccessStore.ts"
import { AuditLog, type SecurityEvent } from "./AuditLog.ts"
import { MemberStore } from "./MemberStore.ts"
import { admitted, type Place, type Session, type Visit } from "./Session.ts"

/** The entry of a session that started or ended. */
export const told = (action: "session.started" | "session.ended", { id, userId }: Session, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { sessionId: id, userId }
})

/** Sessions do not count for the grant they work in: programs there must not keep people out. */
export type SessionRateLimits = Pick<RateLimits, "credential" | "user">

/** Digests are SHA-256 of a token, hex. How long anything lasts is decided outside, by `Session.ts`. What starts or ends is in the audit log. */
export class SessionStore extends Context.Service<SessionStore, {
  /**
   * Starts a session, ends the one of the digest `replaces`, and forgets the user's sessions made before `staleBefore`:
   * all or nothing.
   */
  start(session: Session, digest: string, more: { readonly replaces: string | null; readonly staleBefore: DateTime.Utc }): Effect.Effect<
    void,
    StoreUnavailable
  >
  /**
   * The session with its user and the grant it works in, and a rate slot of the session and of its user (as
   * `AccessStore.admit`), in one statement. The grant is the chosen one as long as the user has it, else the oldest the user has. `null`: never
   * was, or ended.
   */
  admit(
    digest: string,
    limits: SessionRateLimits
  ): Effect.Effect<{ readonly visit: Visit; readonly rate: RateSlot } | null, StoreUnavailable>
  /** Of these visits, the sessions whose user is approved and still has that grant. For streams that stay open. */
  stillThere(visits: ReadonlyArray<{ readonly sessionId: string; readonly grantId: string }>): Effect.Effect<
    ReadonlyArray<{ readonly session: Session; readonly grantId: string }>,
    StoreUnavailable
  >
  /** The session works in this grant from now on. The caller has checked that its user has it. */
  chooseGrant(id: string, grantId: string): Effect.Effect<void, StoreUnavailable>
  /** Moves `lastSeenAt` forward, never back. */
  touch(id: string, at: DateTime.Utc): Effect.Effect<void, StoreUnavailable>
  /** The session ended by this call; `null`: there was none. */
  end(digest: string, at: DateTime.Utc): Effect.Effect<Session | null, StoreUnavailable>
  /** Ends every session of the user; how many there were. */
  endAll(userId: string, at: DateTime.Utc): Effect.Effect<number, StoreUnavailable>
  /**
   * Remembers a link until it is used or its life is over, and forgets those whose life is. Lives count on the store's own
   * time: `at`, here and in `useLink`, is what the audit log tells, and decides nothing.
   */
  makeLink(link: { readonly userId: string; readonly at: DateTime.Utc; readonly life: Duration.Duration }, digest: string): Effect.Effect<
    void,
    StoreUnavailable
  >
  /** Whose link it is; `null`: unknown, used or expired. Of many who use it at once, one succeeds. */
  useLink(digest: string, at: DateTime.Utc): Effect.Effect<string | null, StoreUnavailable>
}>()("@slipway/domain/SessionStore") {
  /** Process-local, for tests and for embedding without a database. */
  static readonly layerMemory = Layer.effect(
    SessionStore,
    Effect.gen(function*() {
      const audit = yield* AuditLog
      const access = yield* AccessStore
      const members = yield* MemberStore
      const sessions = new Map<string, Session>()
      const chosen = new Map<string, string>()
      const ofSessions = new Map<string, Array<number>>()
      const ofUsers = new Map<string, Array<number>>()
      const links = new Map<string, { readonly userId: string; readonly expiresAt: DateTime.Utc }>()
      const endWhere = Effect.fnUntraced(function*(ends: (session: Session, digest: string) => boolean, at: DateTime.Utc) {
        const ended = Array.from(sessions).filter(([digest, session]) => ends(session, digest))
        for (const [digest] of ended) sessions.delete(digest)
        yield* audit.append(ended.map(([, session]) => told("session.ended", session, at)))
        return ended.map(([, session]) => session)
      })

      const placesOf = Effect.fnUntraced(function*(userId: string) {
        const organizations = yield* members.organizations
        const places: Array<Place> = []
        for (const { id: grantId, organizationId, revokedAt } of (yield* access.listGrants).toReversed()) {
          const member = (yield* members.members(organizationId)).find(({ user }) => user.id === userId)
          if (revokedAt !== null || member?.active !== true) continue
          const organizationSuspended = organizations.find(({ id }) => id === organizationId)?.suspendedAt !== null
          places.push({ grantId, organizationId, role: member.role, organizationSuspended })
        }
        return places
      })
      const visitOf = Effect.fnUntraced(function*(session: Session, grantId: string | undefined) {
        const places = yield* placesOf(session.userId)
        const user = yield* Effect.fromNullishOr(yield* members.findUser({ _tag: "Id", id: session.userId })).pipe(Effect.orDie)
        return { session, user, place: places.find((place) => place.grantId === grantId) ?? places[0] ?? null }
      })

      return SessionStore.of({
        start: Effect.fnUntraced(function*(session, digest, { replaces, staleBefore }) {
          const isStale = ({ createdAt, userId }: Session) => userId === session.userId && DateTime.isLessThan(createdAt, staleBefore)
          yield* endWhere((other, theirs) => theirs === replaces || isStale(other), session.createdAt)
          sessions.set(digest, session)
          yield* audit.append([told("session.started", session, session.createdAt)])
        }),
        admit: Effect.fnUntraced(function*(digest, limits) {
          const session = sessions.get(digest)
          if (session === undefined) return null
          return {
            visit: yield* visitOf(session, chosen.get(session.id)),
            rate: takeSlot({
              credential: { acceptedAt: windowOf(ofSessions, session.id), most: limits.credential },
              user: { acceptedAt: windowOf(ofUsers, session.userId), most: limits.user }
            }, (yield* DateTime.now).epochMilliseconds)
          }
        }),
        stillThere: Effect.fnUntraced(function*(visits) {
          const there: Array<{ session: Session; grantId: string }> = []
          for (const { grantId, sessionId } of visits) {
            const session = Array.from(sessions.values()).find(({ id }) => id === sessionId)
            if (session === undefined) continue
            const found = admitted(yield* visitOf(session, grantId))
            if (Result.isSuccess(found) && found.success.place.grantId === grantId) there.push({ session, grantId })
          }
          return there
        }),
        chooseGrant: (id, grantId) => Effect.sync(() => void chosen.set(id, grantId)),
        touch: (id, at) =>
          Effect.sync(() => {
            for (const [digest, session] of sessions) {
              if (session.id === id) sessions.set(digest, { ...session, lastSeenAt: DateTime.max(session.lastSeenAt, at) })
            }
          }),
        end: (digest, at) => Effect.map(endWhere((_, theirs) => theirs === digest, at), ([session]) => session ?? null),
        endAll: (userId, at) => Effect.map(endWhere((session) => session.userId === userId, at), ({ length }) => length),
        makeLink: Effect.fnUntraced(function*({ at, life, userId }, digest) {
          const now = yield* DateTime.now
          for (const [other, link] of links) if (DateTime.isLessThanOrEqualTo(link.expiresAt, now)) links.delete(other)
          links.set(digest, { userId, expiresAt: DateTime.addDuration(now, life) })
          yield* audit.append([{ action: "sign_in_link.made", at, subjects: { userId } }])
        }),
        useLink: Effect.fnUntraced(function*(digest, at) {
          const link = links.get(digest)
          if (link === undefined || DateTime.isLessThanOrEqualTo(link.expiresAt, yield* DateTime.now)) return null
          links.delete(digest)
          yield* audit.append([{ action: "sign_in_link.used", at, subjects: { userId: link.userId } }])
          return link.userId
        })
      })
    })
  ).pipe(Layer.provideMerge(AccessStore.layerMemory))
}
