/** Port: sessions and one-time sign-in links. Checked by `testing/SessionStoreContract`. */
import { Context, DateTime, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import type { Session } from "./Session.ts"

/** Digests are SHA-256 of a token, hex. How long anything lasts is decided outside, by `Session.ts`. */
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
  end(digest: string): Effect.Effect<Session | null, StoreUnavailable>
  /** Ends every session of the user; how many there were. */
  endAll(userId: string): Effect.Effect<number, StoreUnavailable>
  /** Remembers a link until it is used or `expiresAt`, and forgets those that expired before `at`. */
  makeLink(link: { readonly userId: string; readonly at: DateTime.Utc; readonly expiresAt: DateTime.Utc }, digest: string): Effect.Effect<
    void,
    StoreUnavailable
  >
  /** Whose link it is; `null`: unknown, used or expired. Of many who use it at once, one succeeds. */
  useLink(digest: string, at: DateTime.Utc): Effect.Effect<string | null, StoreUnavailable>
}>()("@slipway/domain/SessionStore") {
  /** Process-local, for tests and for embedding without a database. */
  static readonly layerMemory = Layer.sync(SessionStore, () => {
    const sessions = new Map<string, Session>()
    const links = new Map<string, { readonly userId: string; readonly expiresAt: DateTime.Utc }>()
    const endWhere = (ends: (session: Session) => boolean) => {
      const ended = Array.from(sessions).filter(([, session]) => ends(session))
      for (const [digest] of ended) sessions.delete(digest)
      return ended.length
    }

    return SessionStore.of({
      start: (session, digest, { replaces, staleBefore }) =>
        Effect.sync(() => {
          endWhere(({ createdAt, userId }) => userId === session.userId && DateTime.isLessThan(createdAt, staleBefore))
          if (replaces !== null) sessions.delete(replaces)
          sessions.set(digest, session)
        }),
      find: (digest) => Effect.sync(() => sessions.get(digest) ?? null),
      touch: (id, at) =>
        Effect.sync(() => {
          for (const [digest, session] of sessions) {
            if (session.id === id) sessions.set(digest, { ...session, lastSeenAt: DateTime.max(session.lastSeenAt, at) })
          }
        }),
      end: (digest) =>
        Effect.sync(() => {
          const session = sessions.get(digest) ?? null
          sessions.delete(digest)
          return session
        }),
      endAll: (userId) => Effect.sync(() => endWhere((session) => session.userId === userId)),
      makeLink: ({ at, expiresAt, userId }, digest) =>
        Effect.sync(() => {
          for (const [other, link] of links) if (DateTime.isLessThan(link.expiresAt, at)) links.delete(other)
          links.set(digest, { userId, expiresAt })
        }),
      useLink: (digest, at) =>
        Effect.sync(() => {
          const link = links.get(digest)
          if (link === undefined || DateTime.isLessThanOrEqualTo(link.expiresAt, at)) return null
          links.delete(digest)
          return link.userId
        })
    })
  })
}
