/** Port: sessions, one-time sign-in links and tickets. Checked by `SessionStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Session, Visit } from "../rules/Session.ts"
import type { Role } from "../rules/User.ts"
import type { Grant, RateLimits, RateSlot } from "./AccessStore.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/** A grant of an organization in which the user is an active member, and the user's role. */
export interface OwnGrant extends Omit<Grant, "retentionDays"> {
  readonly role: Role
}

/** The security event for a session that started or ended. */
export const told = (action: "session.started" | "session.ended", { id, userId }: Session, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { sessionId: id, userId }
})

/** Requests of sessions do not count for their grant, so that programs cannot keep people out. */
export type SessionRateLimits = Pick<RateLimits, "credential" | "user">

/** Digests are SHA-256 of a token, in hex. `Session.ts` decides lifetimes. Starts and ends are in the audit log. */
export class SessionStore extends Context.Service<SessionStore, {
  /**
   * Starts a session, ends the session with the digest `replaces`, and deletes the user's sessions made before `staleBefore`, in one
   * transaction.
   */
  start(session: Session, digest: string, more: { readonly replaces: string | null; readonly staleBefore: DateTime.Utc }): Effect.Effect<
    void,
    StoreUnavailable
  >
  /**
   * Returns the session with its user and grant, and takes a rate slot of the session and of its user (as `AccessStore.admit`), in one
   * statement. The grant is the chosen one while the user has it, otherwise the user's oldest. `null`: the session is unknown or ended.
   */
  admit(
    digest: string,
    limits: SessionRateLimits
  ): Effect.Effect<{ readonly visit: Visit; readonly rate: RateSlot } | null, StoreUnavailable>
  /** The sessions of these visits whose user is approved and still has that grant, and the user's role. For streams that stay open. */
  stillThere(visits: ReadonlyArray<{ readonly sessionId: string; readonly grantId: string }>): Effect.Effect<
    ReadonlyArray<{ readonly session: Session; readonly grantId: string; readonly role: Role }>,
    StoreUnavailable
  >
  /** Oldest first, without revoked grants. Grants of suspended organizations are included. */
  grantsOf(userId: string): Effect.Effect<ReadonlyArray<OwnGrant>, StoreUnavailable>
  /** The session uses this grant from now on. The caller has checked that its user has it. */
  chooseGrant(id: string, grantId: string): Effect.Effect<void, StoreUnavailable>
  /** Moves `lastSeenAt` forward, never back. */
  touch(id: string, at: DateTime.Utc): Effect.Effect<void, StoreUnavailable>
  /** Returns the session ended by this call; `null`: no such session. */
  end(digest: string, at: DateTime.Utc): Effect.Effect<Session | null, StoreUnavailable>
  /** Ends every session of the user and returns their number. */
  endAll(userId: string, at: DateTime.Utc): Effect.Effect<number, StoreUnavailable>
  /**
   * Stores a link until it is used or expires, and deletes expired links. Expiry uses the store's own clock. `at`, here and in
   * `useLink`, is the time in the audit log only.
   */
  makeLink(link: { readonly userId: string; readonly at: DateTime.Utc; readonly life: Duration.Duration }, digest: string): Effect.Effect<
    void,
    StoreUnavailable
  >
  /** Returns the id of the link's user; `null`: the link is unknown, used or expired. Of concurrent uses exactly one succeeds. */
  useLink(digest: string, at: DateTime.Utc): Effect.Effect<string | null, StoreUnavailable>
  /** Stores a ticket until it is used or its life is over, and deletes expired tickets. Expiry uses the store's own clock. */
  makeTicket(digest: string, life: Duration.Duration): Effect.Effect<void, StoreUnavailable>
  /** Uses the ticket up. `false`: the ticket is unknown, used or expired. Of concurrent uses exactly one succeeds. */
  useTicket(digest: string): Effect.Effect<boolean, StoreUnavailable>
}>()("@slipway/domain/SessionStore") {
}
