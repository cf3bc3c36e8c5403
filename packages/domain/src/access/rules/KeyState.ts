/** Whether a key opens anything by itself. Its grant, its user and their organization have a say too. */
import type * as DateTime from "effect/DateTime"
import * as Instant from "../../time/Instant.ts"

export type KeyState = "active" | "expired" | "revoked"

/** The times that decide it; `null`: never. */
export interface KeyTimes {
  readonly expiresAt: DateTime.Utc | null
  readonly revokedAt: DateTime.Utc | null
}

export const keyState = ({ expiresAt, revokedAt }: KeyTimes, now: DateTime.Utc): KeyState =>
  revokedAt !== null ? "revoked" : expiresAt !== null && Instant.isLessThanOrEqualTo(expiresAt, now) ? "expired" : "active"
