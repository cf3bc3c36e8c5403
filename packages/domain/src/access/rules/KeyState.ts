/** The state of a key by itself. Its grant, its user and their organization can also block it. */
import type * as DateTime from "effect/DateTime"
import * as Instant from "../../time/Instant.ts"

/** A revoked key stays `revoked` after it expires. */
export type KeyState = "active" | "expired" | "revoked"

/** The times that decide a key's state; `null`: never. */
export interface KeyTimes {
  readonly expiresAt: DateTime.Utc | null
  readonly revokedAt: DateTime.Utc | null
}

/** The state of a key at `now`. */
export const keyState = ({ expiresAt, revokedAt }: KeyTimes, now: DateTime.Utc): KeyState =>
  revokedAt !== null ? "revoked" : expiresAt !== null && Instant.isLessThanOrEqualTo(expiresAt, now) ? "expired" : "active"
