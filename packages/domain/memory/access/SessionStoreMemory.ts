/** `SessionStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { MemberStore } from "../../src/access/ports/MemberStore.ts"
import { type OwnGrant, told, SessionStore } from "../../src/access/ports/SessionStore.ts"
import { admitted, type Place, type Session } from "../../src/access/rules/Session.ts"
import type { Role } from "../../src/access/rules/User.ts"
import { takeSlot, windowOf } from "./AccessStoreMemory.ts"
import * as AccessStoreMemory from "./AccessStoreMemory.ts"

const ticketsInMemory = (): Pick<SessionStore["Service"], "makeTicket" | "useTicket"> => {
  const tickets = new Map<string, DateTime.Utc>()
  return {
    makeTicket: Effect.fnUntraced(function*(digest, life) {
      const now = yield* DateTime.now
      for (const [other, until] of tickets) if (DateTime.isLessThanOrEqualTo(until, now)) tickets.delete(other)
      tickets.set(digest, DateTime.addDuration(now, life))
    }),
    useTicket: Effect.fnUntraced(function*(digest) {
      const until = tickets.get(digest)
      if (until === undefined || DateTime.isLessThanOrEqualTo(until, yield* DateTime.now)) return false
      return tickets.delete(digest)
    })
  }
}

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
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

    const grantsOf = Effect.fnUntraced(function*(userId: string) {
      const grants: Array<OwnGrant> = []
      for (const grant of (yield* access.listGrants).toReversed()) {
        const member = (yield* members.members(grant.organizationId)).find(({ user }) => user.id === userId)
        if (grant.revokedAt === null && member?.active === true) grants.push({ ...grant, role: member.role })
      }
      return grants
    })
    const placesOf = Effect.fnUntraced(function*(userId: string) {
      const organizations = yield* members.organizations
      return (yield* grantsOf(userId)).map(({ id: grantId, organizationId, role }): Place => {
        const organizationSuspended = organizations.find(({ id }) => id === organizationId)?.suspendedAt !== null
        return { grantId, organizationId, role, organizationSuspended }
      })
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
        const there: Array<{ session: Session; grantId: string; role: Role }> = []
        for (const { grantId, sessionId } of visits) {
          const session = Array.from(sessions.values()).find(({ id }) => id === sessionId)
          if (session === undefined) continue
          const found = admitted(yield* visitOf(session, grantId))
          if (Result.isFailure(found)) continue
          const { place } = found.success
          if (place.grantId === grantId) there.push({ session, grantId, role: place.role })
        }
        return there
      }),
      grantsOf,
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
      }),
      ...ticketsInMemory()
    })
  })
).pipe(Layer.provideMerge(AccessStoreMemory.layer))
