/** Whether a key opens anything by itself. Its grant, its user and their organization have a say too. */
import type * as DateTime from "effect/DateTime"
import * as Instant from "../Instant.ts"
import type { KeyRecord } from "./AccessStore.ts"

export type KeyState = "active" | "expired" | "revoked"

export const keyState = ({ expiresAt, revokedAt }: Pick<KeyRecord, "expiresAt" | "revokedAt">, now: DateTime.Utc): KeyState =>
  revokedAt !== null ? "revoked" : expiresAt !== null && Instant.isLessThanOrEqualTo(expiresAt, now) ? "expired" : "active"
