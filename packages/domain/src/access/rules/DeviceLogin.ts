/**
 * A command on some machine asks for a key of a person, who says yes or no in a browser: the OAuth 2.0 device authorization
 * grant (RFC 8628). The command knows the device code, the person compares the user code. Pure functions.
 */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Instant from "../../time/Instant.ts"
import type { Scope } from "../schema/Principal.ts"

/** What the person said. Ids are those of `Principal`. */
export type DeviceDecision =
  | { readonly _tag: "Denied"; readonly userId: string }
  /** The key is to be this person's, of this grant. */
  | { readonly _tag: "Approved"; readonly userId: string; readonly grantId: string }

/** As it is stored, beside the digests of its two codes. */
export interface DeviceLogin {
  /** What the machine calls itself; anybody can claim any name. */
  readonly machine: string
  /** The IP address it was asked from; empty where the transport does not tell. */
  readonly address: string
  readonly createdAt: DateTime.Utc
  /** `null`: nobody decided yet. */
  readonly decision: DeviceDecision | null
  readonly pace: Pace
}

/** How often the command may ask. */
export interface Pace {
  /** Seconds between two questions. */
  readonly interval: number
  readonly lastAskedAt: DateTime.Utc | null
}

/** No key, for now or for good; the reasons are the error codes of RFC 8628, section 3.5, and of RFC 6749, section 5.2. */
export class DeviceLoginRefused extends Data.TaggedError("DeviceLoginRefused")<{
  readonly because: "authorization_pending" | "slow_down" | "access_denied" | "expired_token" | "invalid_grant"
}> {
  override get message() {
    return REASONS[this.because]
  }
}

const REASONS: Record<DeviceLoginRefused["because"], string> = {
  authorization_pending: "Nobody decided yet. Ask again after the interval.",
  slow_down: "Asked too soon: the interval is five seconds longer from now on.",
  access_denied: "The request was denied.",
  expired_token: "The request expired. Begin again.",
  invalid_grant: "The device code is unknown, or its key was fetched. Begin again."
}

/** How long a person has to decide, and the command to fetch the key. */
export const DEVICE_LOGIN_LIFE = Duration.minutes(10)

/** How long a login is stored. A command that asks after its life is told that the login expired, not that its code is unknown. */
export const DEVICE_LOGIN_KEPT = Duration.minutes(20)

/** Seconds between two questions at first, and how many more after each that came too soon (RFC 8628, sections 3.2 and 3.5). */
export const INTERVAL = 5

/** The name of a program that sends none, as standard OAuth clients do. */
export const UNNAMED_MACHINE = "a machine without a name"

/** What the key opens. What else a person may give is given at the page of keys. */
export const DEVICE_SCOPES: ReadonlyArray<Scope> = ["sandboxes"]

/** As the page of keys proposes. */
export const DEVICE_KEY_LIFE = Duration.days(90)

/** Consonants: no word comes about, and none looks like another or like a digit (RFC 8628, section 6.1). 20^8 codes are 34 bits. */
export const USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
export const USER_CODE_LENGTH = 8

/** `WDJBMJHT` as people read it: `WDJB-MJHT`. */
export const shownUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

const USER_CODE = new RegExp(`^[${USER_CODE_ALPHABET}]{${USER_CODE_LENGTH}}$`, "u")

/** The code that somebody typed, in any case, with whatever between its letters. `null`: it cannot be one. */
export const userCodeOf = (typed: string): string | null => {
  // Longer than any that is meant.
  if (typed.length > 64) return null
  const code = typed.replaceAll(/[\s-]/gu, "").toUpperCase()
  return USER_CODE.test(code) ? code : null
}

/** When the store may forget it. */
export const deviceLoginForgottenAt = ({ createdAt }: Pick<DeviceLogin, "createdAt">): DateTime.Utc =>
  Instant.addDuration(createdAt, DEVICE_LOGIN_KEPT)

export const deviceLoginExpiresAt = ({ createdAt }: Pick<DeviceLogin, "createdAt">): DateTime.Utc =>
  Instant.addDuration(createdAt, DEVICE_LOGIN_LIFE)

const isOver = (login: DeviceLogin, now: DateTime.Utc) => Instant.isGreaterThanOrEqualTo(now, deviceLoginExpiresAt(login))

/** Whether a person can still decide. */
export const isOpen = (login: DeviceLogin, now: DateTime.Utc): boolean => login.decision === null && !isOver(login, now)

/** What the command is told that asks `now`, and how often it may ask from then on. Who asks too soon learns nothing else. */
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
