import { type Plants, plantsIn } from "./Plant.ts"

const stale = "userId === session.userId && DateTime.isLessThan(createdAt, staleBefore)"
const has = "grant.revokedAt === null && member?.active === true"
const forget = "if (DateTime.isLessThanOrEqualTo(link.expiresAt, now)) links.delete(other)"

export const plants: Plants = {
  port: "SessionStore",
  subject: "packages/testing/test/access/SessionStore.suites.ts",
  plants: plantsIn("packages/domain/memory/access/SessionStoreMemory.ts", [
    ["leaves the session there that a new one replaces", "theirs === replaces || isStale(other)", "isStale(other)"],
    ["forgets the stale sessions of others", stale, "DateTime.isLessThan(createdAt, staleBefore)"],
    ["forgets a session that is not stale yet", stale, stale.replace("isLessThan", "isLessThanOrEqualTo")],
    ["does not tell of a session that started", "yield* audit.append([told(\"session.started\", session, session.createdAt)])", ""],
    ["works in no grant once the chosen one is revoked", "?? places[0] ?? null", "?? (grantId === undefined ? places[0] : null) ?? null"],
    ["works in the newest grant", "(yield* access.listGrants).toReversed()", "(yield* access.listGrants)"],
    ["works in revoked grants", has, "member?.active === true"],
    ["works in grants of organizations that one is no more in", has, "grant.revokedAt === null && member !== undefined"],
    ["has no grants of a suspended organization", has,
      `${has} && (yield* members.organizations).find(({ id }) => id === grant.organizationId)?.suspendedAt === null`],
    ["does not tell that the organization is suspended", "?.suspendedAt !== null", "?.suspendedAt === undefined"],
    ["chooses a grant for all sessions", "chosen.get(session.id)", "Array.from(chosen.values()).at(-1)"],
    ["counts each session of a user by itself", "windowOf(ofUsers, session.userId)", "windowOf(ofUsers, session.id)"],
    ["counts all sessions of a user as one", "windowOf(ofSessions, session.id)", "windowOf(ofSessions, session.userId)"],
    ["keeps visits of grants that are gone", "if (place.grantId === grantId) there", "there"],
    ["keeps visits of those who are not approved", "const found = admitted(yield* visitOf(session, grantId))",
      "const visit = yield* visitOf(session, grantId)\n" +
      "const found = admitted({ ...visit, user: { ...visit.user, approvedAt: session.createdAt } })"],
    ["keeps the role with which a visit began", "role: place.role })", "role: \"member\" })"],
    ["moves back when a session was seen", "DateTime.max(session.lastSeenAt, at)", "at"],
    ["sees all sessions for one", "if (session.id === id) sessions.set(", "sessions.set("],
    ["does not end a session", "for (const [digest] of ended) sessions.delete(digest)", ""],
    ["ends the sessions of all users", "endWhere((session) => session.userId === userId, at)", "endWhere(() => true, at)"],
    ["says that one session of a user ended", "({ length }) => length)", "({ length }) => Math.min(1, length))"],
    ["takes a link again", "links.delete(digest)", ""],
    ["takes a link whose life is over by the caller's clock alone", "link.expiresAt, yield* DateTime.now)", "link.expiresAt, at)"],
    ["takes a link in the instant its life is over", "link === undefined || DateTime.isLessThanOrEqualTo",
      "link === undefined || DateTime.isLessThan"],
    ["counts the life of a link from the caller's time", "expiresAt: DateTime.addDuration(now, life)",
      "expiresAt: DateTime.addDuration(at, life)"],
    ["forgets where a session began", "sessions.set(digest, session)", "sessions.set(digest, { ...session, provider: null })"],
    ["forgets the other links with a new one", forget, "links.delete(other)"],
    ["takes a ticket again", "return tickets.delete(digest)", "return true"],
    ["takes a ticket in the instant its life is over", "until === undefined || DateTime.isLessThanOrEqualTo",
      "until === undefined || DateTime.isLessThan"],
    ["takes any ticket", "if (until === undefined || DateTime.isLessThanOrEqualTo(until, yield* DateTime.now)) return false",
      "if (until === undefined) return true"],
    ["forgets the other tickets with a new one", "if (DateTime.isLessThanOrEqualTo(until, now)) tickets.delete(other)",
      "tickets.delete(other)"],
    ["does not tell of a link that was used",
      "yield* audit.append([{ action: \"sign_in_link.used\", at, subjects: { userId: link.userId } }])", ""]
  ])
}
