/** Port: sessions and one-time sign-in links. Checked by `testing/SessionStoreContract`. */
import { Context, DateTime, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import { AuditLog, type SecurityEvent } from "./AuditLog.ts"
import type { Session } from "./Session.ts"

/** The entry of a session that started or ended. */
export const told = (action: "session.started" | "session.ended", { id, userId }: Session, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { sessionId: id, userId }
})

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
  /** `null`: never was, or ended. */
  find(digest: string): Effect.Effect<Session | null, StoreUnavailable>
  /** Moves `lastSeenAt` forward, never back. */
  touch(id: string, at: DateTime.Utc): Effect.Effect<void, StoreUnavailable>
  /** The session ended by this call; `null`: there was none. */
  end(digest: string, at: DateTime.Utc): Effect.Effect<Session | null, StoreUnavailable>
  /** Ends every session of the user; how many there were. */
  endAll(userId: string, at: DateTime.Utc): Effect.Effect<number, StoreUnavailable>
  /** Remembers a link until it is used or `expiresAt`, and forgets those that expired before `at`. */
  makeLink(link: { readonly userId: string; readonly at: DateTime.Utc; readonly expiresAt: DateTime.Utc }, digest: string): Effect.Effect<
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
      const sessions = new Map<string, Session>()
      const links = new Map<string, { readonly userId: string; readonly expiresAt: DateTime.Utc }>()
      const endWhere = Effect.fnUntraced(function*(ends: (session: Session, digest: string) => boolean, at: DateTime.Utc) {
        const ended = Array.from(sessions).filter(([digest, session]) => ends(session, digest))
        for (const [digest] of ended) sessions.delete(digest)
        yield* audit.append(ended.map(([, session]) => told("session.ended", session, at)))
        return ended.map(([, session]) => session)
      })

      return SessionStore.of({
        start: Effect.fnUntraced(function*(session, digest, { replaces, staleBefore }) {
          const isStale = ({ createdAt, userId }: Session) => userId === session.userId && DateTime.isLessThan(createdAt, staleBefore)
          yield* endWhere((other, theirs) => theirs === replaces || isStale(other), session.createdAt)
          sessions.set(digest, session)
          yield* audit.append([told("session.started", session, session.createdAt)])
        }),
        find: (digest) => Effect.sync(() => sessions.get(digest) ?? null),
        touch: (id, at) =>
          Effect.sync(() => {
            for (const [digest, session] of sessions) {
              if (session.id === id) sessions.set(digest, { ...session, lastSeenAt: DateTime.max(session.lastSeenAt, at) })
            }
          }),
        end: (digest, at) => Effect.map(endWhere((_, theirs) => theirs === digest, at), ([session]) => session ?? null),
        endAll: (userId, at) => Effect.map(endWhere((session) => session.userId === userId, at), ({ length }) => length),
        makeLink: Effect.fnUntraced(function*({ at, expiresAt, userId }, digest) {
          for (const [other, link] of links) if (DateTime.isLessThan(link.expiresAt, at)) links.delete(other)
          links.set(digest, { userId, expiresAt })
          yield* audit.append([{ action: "sign_in_link.made", at, subjects: { userId } }])
        }),
        useLink: Effect.fnUntraced(function*(digest, at) {
          const link = links.get(digest)
          if (link === undefined || DateTime.isLessThanOrEqualTo(link.expiresAt, at)) return null
          links.delete(digest)
          yield* audit.append([{ action: "sign_in_link.used", at, subjects: { userId: link.userId } }])
          return link.userId
        })
      })
    })
  ).pipe(Layer.provideMerge(AuditLog.layerMemory))
}
