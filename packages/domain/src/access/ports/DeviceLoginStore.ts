/** Port: commands that wait for a person to sign them in. Checked by `DeviceLoginStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { DeviceDecision, DeviceLogin, DeviceLoginRefused } from "../rules/DeviceLogin.ts"
import type { MintRefused } from "../rules/Minting.ts"
import type { KeyRecord } from "./AccessStore.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/** SHA-256 digests of the two codes, in hex. */
export interface CodeDigests {
  readonly device: string
  readonly user: string
}

/** The limits of open logins, at least 1 each. */
export interface MostOpen {
  readonly ofNetwork: number
  readonly ofAll: number
}

/** The security event for a decision. */
export const decided = (decision: DeviceDecision, { machine }: Pick<DeviceLogin, "machine">, at: DateTime.Utc): SecurityEvent =>
  decision._tag === "Approved"
    ? { action: "device_login.approved", at, subjects: { userId: decision.userId, grantId: decision.grantId, machine } }
    : { action: "device_login.denied", at, subjects: { userId: decision.userId, machine } }

/** The rules are in `DeviceLogin.ts`. A person's decision is in the audit log. */
export class DeviceLoginStore extends Context.Service<DeviceLoginStore, {
  /**
   * Stores the login, and deletes those that are over at its `createdAt` by `deviceLoginForgottenAt`. `false`: another login has one of
   * its codes. At the limit, also of logins that begin at the same time, the new login replaces the oldest undecided one of its
   * network. At the limit of all, it replaces the oldest undecided one of the network that has most. An empty address belongs to no
   * network. Decided logins are never replaced.
   */
  begin(login: Pick<DeviceLogin, "machine" | "address" | "createdAt">, digests: CodeDigests, most: MostOpen): Effect.Effect<
    boolean,
    StoreUnavailable
  >
  /** Finds a login by the digest of its user code while a person can decide it; `null`: no such login. */
  find(userDigest: string, now: DateTime.Utc): Effect.Effect<DeviceLogin | null, StoreUnavailable>
  /** Returns the login that this call decided; `null`: no login can be decided. Of concurrent decisions exactly one succeeds. */
  decide(userDigest: string, decision: DeviceDecision, at: DateTime.Utc): Effect.Effect<DeviceLogin | null, StoreUnavailable>
  /** Applies `ask` and stores the new polling interval. Fails with `invalid_grant` for an unknown code. */
  ask(deviceDigest: string, now: DateTime.Utc): Effect.Effect<
    { readonly machine: string; readonly userId: string; readonly grantId: string },
    DeviceLoginRefused | StoreUnavailable
  >
  /**
   * Makes the key of an approved login as `AccessStore.createKey` does, and deletes the login, both in one transaction. `null`: a
   * concurrent caller has fetched it.
   */
  redeem(
    deviceDigest: string,
    key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">,
    keyDigest: string,
    mostKeys: number
  ): Effect.Effect<KeyRecord | null, MintRefused | StoreUnavailable>
}>()("@slipway/domain/DeviceLoginStore") {
}
