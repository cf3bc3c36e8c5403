/** A person's session in one browser: how long it and a sign-in link last, and for whom its requests count. Pure functions. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Instant from "../../time/Instant.ts"
import type { Principal } from "../schema/Principal.ts"
import { scopesOf } from "./Minting.ts"
import type { Role, User } from "./User.ts"

/** A session as it is stored: everything but the token. `id` is a UUID. */
export interface Session {
  readonly id: string
  readonly userId: string
  readonly createdAt: DateTime.Utc
  /** At most a minute behind the last request. */
  readonly lastSeenAt: DateTime.Utc
}

/** The grant that a session works in, and who its user is there. */
export interface Place {
  readonly grantId: string
  readonly organizationId: string
  /** Of an active member. */
  readonly role: Role
  readonly organizationSuspended: boolean
}

/** A request that came with a session. `place: null`: no organization of which the user is an active member has a grant. */
export interface Visit {
  readonly session: Session
  readonly user: User
  readonly place: Place | null
}

/** The person is known, and may do nothing here. An administrator can change that. */
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

/** A visit of somebody who may work here. */
export interface Admitted extends Visit {
  readonly place: Place
}

export const admitted = ({ place, ...visit }: Visit): Result.Result<Admitted, VisitRefused> =>
  visit.user.approvedAt === null
    ? Result.fail(new VisitRefused({ because: "not_approved" }))
    : place === null
    ? Result.fail(new VisitRefused({ because: "no_grant" }))
    : place.organizationSuspended
    ? Result.fail(new VisitRefused({ because: "suspended" }))
    : Result.succeed({ ...visit, place })

/** Who makes the request. A person may do with a session what the person's own keys could. */
export const principalOf = ({ place: { grantId, organizationId, role }, session: { id, userId } }: Admitted): Principal => ({
  credential: { _tag: "Session", sessionId: id },
  grantId,
  organizationId,
  userId,
  scopes: new Set(scopesOf(role)),
  test: false
})

export interface Lifetimes {
  /** Without a request. */
  readonly idle: Duration.Duration
  /** Whatever was requested. */
  readonly absolute: Duration.Duration
}

/** Configuration. The defaults are a working day's pause and two weeks (OWASP's session cheat sheet asks for both limits). */
export const SessionLifetimes = Context.Reference<Lifetimes>("@slipway/domain/SessionLifetimes", {
  defaultValue: () => ({ idle: Duration.hours(12), absolute: Duration.days(14) })
})

/** From then on the session is none. */
export const expiresAt = ({ createdAt, lastSeenAt }: Session, { absolute, idle }: Lifetimes): DateTime.Utc =>
  Instant.min(Instant.addDuration(createdAt, absolute), Instant.addDuration(lastSeenAt, idle))

export const isAlive = (session: Session, lifetimes: Lifetimes, now: DateTime.Utc): boolean =>
  Instant.isLessThan(now, expiresAt(session, lifetimes))

/** How old `lastSeenAt` may become before a request writes it: reads stay cheap. */
const TOUCH_EVERY = Duration.minutes(1)

export const needsTouch = ({ lastSeenAt }: Session, now: DateTime.Utc): boolean =>
  Instant.isGreaterThanOrEqualTo(now, Instant.addDuration(lastSeenAt, TOUCH_EVERY))

/** How long a one-time sign-in link can be used. */
export const LINK_LIFE = Duration.minutes(10)
