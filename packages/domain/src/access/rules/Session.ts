/**
 * A person's session in one browser: its lifetime, the lifetime of a sign-in link, and the principal of its requests. Pure functions.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Instant from "../../time/Instant.ts"
import type { Principal } from "../schema/Principal.ts"
import type { ProviderId } from "./Identity.ts"
import { rightsOf, scopesOf } from "./Minting.ts"
import type { Role, User } from "./User.ts"

/** A session as it is stored: everything but the token. `id` is a UUID. */
export interface Session {
  readonly id: string
  readonly userId: string
  /** The provider at which the person signed in; `null`: by a link. */
  readonly provider: ProviderId | null
  readonly createdAt: DateTime.Utc
  /** Up to a minute older than the last request. */
  readonly lastSeenAt: DateTime.Utc
}

/** The grant that a session uses, and the user's role there. */
export interface Place {
  readonly grantId: string
  readonly organizationId: string
  /** The role of an active member. */
  readonly role: Role
  readonly organizationSuspended: boolean
}

/** A request with a session. `place: null`: no organization of which the user is an active member has a grant. */
export interface Visit {
  readonly session: Session
  readonly user: User
  readonly place: Place | null
}

/** The person is known but may do nothing here. An administrator can change that. */
export class VisitRefused extends Data.TaggedError("VisitRefused")<{ readonly because: "not_approved" | "no_grant" | "suspended" }> {
  override get message() {
    return REASONS[this.because]
  }
}

const REASONS: Record<VisitRefused["because"], string> = {
  not_approved: "An administrator has to approve you first.",
  no_grant: "You are no active member of an organization that has a grant.",
  suspended: "Your organization is suspended."
}

/** A visit of a person who may work here. */
export interface Admitted extends Visit {
  readonly place: Place
}

/** The visit with its place, or the reason for the refusal. */
export const admitted = ({ place, ...visit }: Visit): Result.Result<Admitted, VisitRefused> =>
  visit.user.approvedAt === null
    ? Result.fail(new VisitRefused({ because: "not_approved" }))
    : place === null
    ? Result.fail(new VisitRefused({ because: "no_grant" }))
    : place.organizationSuspended
    ? Result.fail(new VisitRefused({ because: "suspended" }))
    : Result.succeed({ ...visit, place })

/** The principal of a visit. A session may do whatever the person's own keys could do. */
export const principalOf = ({ place: { grantId, organizationId, role }, session: { id, userId } }: Admitted): Principal => ({
  credential: { _tag: "Session", sessionId: id },
  grantId,
  organizationId,
  userId,
  scopes: rightsOf(role, scopesOf(role)),
  test: false
})

/** The lifetimes of a session. It ends at the earlier of the two. */
export interface Lifetimes {
  /** The longest time without a request. */
  readonly idle: Duration.Duration
  /** The longest time since sign-in. */
  readonly absolute: Duration.Duration
  /** The longest time since a sign-in with OpenID Connect: then the provider is asked again whether the person may enter. */
  readonly oidc: Duration.Duration
}

/** The lifetimes, a setting. The defaults are a break in a working day and two weeks (OWASP's session cheat sheet asks for both limits). */
export const SessionLifetimes = Context.Reference<Lifetimes>("@slipway/domain/SessionLifetimes", {
  defaultValue: () => ({ idle: Duration.hours(12), absolute: Duration.days(14), oidc: Duration.hours(12) })
})

/** The time from which the session is invalid. */
export const expiresAt = ({ createdAt, lastSeenAt, provider }: Session, { absolute, idle, oidc }: Lifetimes): DateTime.Utc => {
  const most = provider === "oidc" ? Duration.min(absolute, oidc) : absolute
  return Instant.min(Instant.addDuration(createdAt, most), Instant.addDuration(lastSeenAt, idle))
}

/** Whether the session is still valid at `now`. */
export const isAlive = (session: Session, lifetimes: Lifetimes, now: DateTime.Utc): boolean =>
  Instant.isLessThan(now, expiresAt(session, lifetimes))

/** The age at which a request updates `lastSeenAt`. Other requests write nothing, so reads stay cheap. */
const TOUCH_EVERY = Duration.minutes(1)

/** Whether a request at `now` has to update `lastSeenAt`. */
export const needsTouch = ({ lastSeenAt }: Session, now: DateTime.Utc): boolean =>
  Instant.isGreaterThanOrEqualTo(now, Instant.addDuration(lastSeenAt, TOUCH_EVERY))

/** The lifetime of a one-time sign-in link. */
export const LINK_LIFE = Duration.minutes(10)
