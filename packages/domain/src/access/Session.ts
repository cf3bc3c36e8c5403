/** A person's session in one browser, and how long it and a sign-in link last. Pure functions of time. */
import { Context, DateTime, Duration } from "effect"

/** A session as it is stored: everything but the token. `id` is a UUID. */
export interface Session {
  readonly id: string
  readonly userId: string
  readonly createdAt: DateTime.Utc
  /** At most a minute behind the last request. */
  readonly lastSeenAt: DateTime.Utc
}

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
  DateTime.min(DateTime.addDuration(createdAt, absolute), DateTime.addDuration(lastSeenAt, idle))

export const isAlive = (session: Session, lifetimes: Lifetimes, now: DateTime.Utc): boolean =>
  DateTime.isLessThan(now, expiresAt(session, lifetimes))

/** How old `lastSeenAt` may become before a request writes it: reads stay cheap. */
const TOUCH_EVERY = Duration.minutes(1)

export const needsTouch = ({ lastSeenAt }: Session, now: DateTime.Utc): boolean =>
  DateTime.isGreaterThanOrEqualTo(now, DateTime.addDuration(lastSeenAt, TOUCH_EVERY))

/** How long a one-time sign-in link can be used. */
export const LINK_LIFE = Duration.minutes(10)
