/**
 * A command on some machine asks for a key, and a person allows or denies it in a browser: the OAuth 2.0 device authorization grant
 * (RFC 8628). The command knows the device code, the person compares the user code. Pure functions.
 */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Instant from "../../time/Instant.ts"
import type { Scope } from "../schema/Principal.ts"

/** The person's decision. Ids are those of `Principal`. */
export type DeviceDecision =
  | { readonly _tag: "Denied"; readonly userId: string }
  /** The key will belong to this person and this grant. */
  | { readonly _tag: "Approved"; readonly userId: string; readonly grantId: string }

/** A login as it is stored. The digests of its two codes are stored beside it. */
export interface DeviceLogin {
  /** The name that the machine gave itself. It is not verified: a stranger can choose any name. */
  readonly machine: string
  /** The IP address of the request; empty if the transport does not know it. */
  readonly address: string
  readonly createdAt: DateTime.Utc
  /** `null`: undecided. */
  readonly decision: DeviceDecision | null
  readonly pace: Pace
}

/** The polling interval of a command. */
export interface Pace {
  /** Seconds between two polls. */
  readonly interval: number
  readonly lastAskedAt: DateTime.Utc | null
}

/** The command gets no key, for now or for good. The reasons are the error codes of RFC 8628, section 3.5, and of RFC 6749, section 5.2. */
export class DeviceLoginRefused extends Data.TaggedError("DeviceLoginRefused")<{
  readonly because: "authorization_pending" | "slow_down" | "access_denied" | "expired_token" | "invalid_grant"
}> {
  override get message() {
    return REASONS[this.because]
  }
}

const REASONS: Record<DeviceLoginRefused["because"], string> = {
  authorization_pending: "The request is undecided. Ask again after the interval.",
  slow_down: "The command asked too soon. The interval is five seconds longer from now on.",
  access_denied: "The request was denied.",
  expired_token: "The request expired. Begin again.",
  invalid_grant: "The device code is unknown, or its key was fetched. Begin again."
}

/** The time in which a person can decide and the command can fetch the key. */
export const DEVICE_LOGIN_LIFE = Duration.minutes(10)

/** How long a login is stored. Until then, a command that polls after the login's life gets "expired" instead of "unknown code". */
export const DEVICE_LOGIN_KEPT = Duration.minutes(20)

/** Seconds between two polls at first, and the seconds added after each poll that came too soon (RFC 8628, sections 3.2 and 3.5). */
export const INTERVAL = 5

/** The name of a program that sends no name, as standard OAuth clients do. */
export const UNNAMED_MACHINE = "a machine without a name"

/** The scopes of the key. People give other scopes on the page of keys. */
export const DEVICE_SCOPES: ReadonlyArray<Scope> = ["sandboxes"]

/** The default of the page of keys. */
export const DEVICE_KEY_LIFE = Duration.days(90)

/**
 * Consonants only, so that codes form no words, without letters that look alike or like a digit (RFC 8628, section 6.1). 20^8 codes are
 * 34 bits.
 */
export const USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
/** Characters of a user code, without the hyphen. */
export const USER_CODE_LENGTH = 8

/** Formats `WDJBMJHT` for people: `WDJB-MJHT`. */
export const shownUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

const USER_CODE = new RegExp(`^[${USER_CODE_ALPHABET}]{${USER_CODE_LENGTH}}$`, "u")

/** Parses a typed code: any case, any separators between its letters. `null`: it cannot be a code. */
export const userCodeOf = (typed: string): string | null => {
  // Longer texts cannot be a code: do not scan them.
  if (typed.length > 64) return null
  const code = typed.replaceAll(/[\s-]/gu, "").toUpperCase()
  return USER_CODE.test(code) ? code : null
}

/** The time from which the store may delete the login. */
export const deviceLoginForgottenAt = ({ createdAt }: Pick<DeviceLogin, "createdAt">): DateTime.Utc =>
  Instant.addDuration(createdAt, DEVICE_LOGIN_KEPT)

/** The time from which a person can no longer decide and the command can no longer fetch the key. */
export const deviceLoginExpiresAt = ({ createdAt }: Pick<DeviceLogin, "createdAt">): DateTime.Utc =>
  Instant.addDuration(createdAt, DEVICE_LOGIN_LIFE)

const isOver = (login: DeviceLogin, now: DateTime.Utc) => Instant.isGreaterThanOrEqualTo(now, deviceLoginExpiresAt(login))

/** Whether a person can still decide. */
export const isOpen = (login: DeviceLogin, now: DateTime.Utc): boolean => login.decision === null && !isOver(login, now)

/** The answer to a poll at `now`, and the polling interval from then on. A poll that comes too soon gets `slow_down` and nothing else. */
export const ask = (login: DeviceLogin, now: DateTime.Utc): {
  readonly pace: Pace
  readonly answer: Result.Result<DeviceDecision & { readonly _tag: "Approved" }, DeviceLoginRefused>
} => {
  const { interval, lastAskedAt } = login.pace
  const refuse = (because: DeviceLoginRefused["because"], pace: Pace = { interval, lastAskedAt: now }) => ({
    pace,
    answer: Result.fail(new DeviceLoginRefused({ because }))
  })
  if (isOver(login, now)) return refuse("expired_token")
  if (lastAskedAt !== null && Instant.isLessThan(now, Instant.addDuration(lastAskedAt, Duration.seconds(interval)))) {
    return refuse("slow_down", { interval: interval + INTERVAL, lastAskedAt: now })
  }
  if (login.decision === null) return refuse("authorization_pending")
  if (login.decision._tag === "Denied") return refuse("access_denied")
  return { pace: { interval, lastAskedAt: now }, answer: Result.succeed(login.decision) }
}
