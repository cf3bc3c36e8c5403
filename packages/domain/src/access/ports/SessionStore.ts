/** Port: sessions and one-time sign-in links. Checked by `SessionStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Session, Visit } from "../rules/Session.ts"
import type { Role } from "../rules/User.ts"
import type { Grant, RateLimits, RateSlot } from "./AccessStore.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/** A grant of an organization of which somebody is an active member, and in which role. */
export interface OwnGrant extends Grant {
  readonly role: Role
}

/** The entry of a session that started or ended. */
export const told = (action: "session.started" | "session.ended", { id, userId }: Session, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { sessionId: id, userId }
})

/** Sessions do not count for the grant they work in: programs there must not keep people out. */
export type SessionRateLimits = Pick<RateLimits, "credential" | "user">

/** Digests are SHA-256 of a token, hex. `Session.ts` decides how long anything lasts. What starts or ends is in the audit log. */
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
   * `AccessStore.admit`), in one statement. The grant is the chosen one as long as the user has it, else the oldest the user
   * has. `null`: never was, or ended.
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
  /** Oldest first; none that is revoked. Those of a suspended organization are among them. */
  grantsOf(userId: string): Effect.Effect<ReadonlyArray<OwnGrant>, StoreUnavailable>
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
}
