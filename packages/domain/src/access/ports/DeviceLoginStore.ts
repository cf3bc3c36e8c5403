/** Port: commands that wait for a person to sign them in. Checked by `DeviceLoginStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { DeviceDecision, DeviceLogin, DeviceLoginRefused } from "../rules/DeviceLogin.ts"
import type { MintRefused } from "../rules/Minting.ts"
import type { KeyRecord } from "./AccessStore.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/** Digests of the two codes: SHA-256, hex. */
export interface CodeDigests {
  readonly device: string
  readonly user: string
}

/** How many logins may be open at once: at least 1 each. */
export interface MostOpen {
  readonly ofNetwork: number
  readonly ofAll: number
}

/** The entry of a decision. */
export const decided = (decision: DeviceDecision, { machine }: Pick<DeviceLogin, "machine">, at: DateTime.Utc): SecurityEvent =>
  decision._tag === "Approved"
    ? { action: "device_login.approved", at, subjects: { userId: decision.userId, grantId: decision.grantId, machine } }
    : { action: "device_login.denied", at, subjects: { userId: decision.userId, machine } }

/** `DeviceLogin.ts` decides; what a person decided is in the audit log. */
export class DeviceLoginStore extends Context.Service<DeviceLoginStore, {
  /**
   * Remembers it, and forgets those that are over at its `createdAt` as `deviceLoginForgottenAt` says. `false`: another one has one
   * of its codes. At most so many are open at once, of many that begin at once too: one more takes the place of the oldest one of its
   * network or, of all, of the oldest one of the network that has most. An address that is empty is of no network. What was decided
   * gives way to nothing.
   */
  begin(login: Pick<DeviceLogin, "machine" | "address" | "createdAt">, digests: CodeDigests, most: MostOpen): Effect.Effect<
    boolean,
    StoreUnavailable
  >
  /** By the digest of its user code, while a person can decide it; `null`: there is none. */
  find(userDigest: string, now: DateTime.Utc): Effect.Effect<DeviceLogin | null, StoreUnavailable>
  /** The login that is decided by this call; `null`: there is none that can be. Of many who decide at once, one does. */
  decide(userDigest: string, decision: DeviceDecision, at: DateTime.Utc): Effect.Effect<DeviceLogin | null, StoreUnavailable>
  /** What `ask` says, whose pace is kept. Fails with `invalid_grant` where there is none. */
  ask(deviceDigest: string, now: DateTime.Utc): Effect.Effect<
    { readonly machine: string; readonly userId: string; readonly grantId: string },
    DeviceLoginRefused | StoreUnavailable
  >
  /**
   * Makes the key of an approved login, as `AccessStore.createKey`, and forgets the login: both or neither. Of many who fetch it
   * at once, one has it; `null`: somebody else had.
   */
  redeem(
    deviceDigest: string,
    key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">,
    keyDigest: string,
    mostKeys: number
  ): Effect.Effect<KeyRecord | null, MintRefused | StoreUnavailable>
}>()("@slipway/domain/DeviceLoginStore") {
}
