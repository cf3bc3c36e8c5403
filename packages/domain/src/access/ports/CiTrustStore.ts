/** Port: the trusts in CIs. Checked by `CiTrustStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { MintRefused } from "../rules/Minting.ts"
import type { CiTrust } from "../schema/CiTrust.ts"
import type { GrantNotFound, KeyRecord } from "./AccessStore.ts"
import type { SecurityEvent } from "./AuditLog.ts"

/** No such trust. Retrying does not help. */
export class CiTrustNotFound extends Schema.TaggedError<CiTrustNotFound>()("CiTrustNotFound", { trust: Schema.String }) {
  override get message() {
    return `There is no CI trust ${this.trust}. See: slipway ci-trust list`
  }
}
/** The grant has as many trusts as it may have. */
export class TooManyCiTrusts extends Schema.TaggedError<TooManyCiTrusts>()("TooManyCiTrusts", { most: Schema.Int }) {
  override get message() {
    return `A grant has at most ${this.most} CI trusts. Remove one with: slipway ci-trust remove <id>`
  }
}

/** The security event of a trust that was added or removed. */
export const ciTrustChanged = (
  action: "ci_trust.added" | "ci_trust.removed",
  { grantId, id, issuer, userId }: CiTrust,
  at: DateTime.Utc
): SecurityEvent => ({ action, at, subjects: { ciTrustId: id, grantId, userId, issuer } })

/** The security event of an exchange. `run`: the name of the key, which tells the run. */
export const ciTokenExchanged = (
  trust: CiTrust,
  { createdAt, id, label }: Pick<KeyRecord, "id" | "label" | "createdAt">
): SecurityEvent => ({
  action: "ci_token.exchanged",
  at: createdAt,
  subjects: { ciTrustId: trust.id, grantId: trust.grantId, userId: trust.userId, keyId: id, run: label }
})

/** Trusts of revoked grants are kept, and no longer listed. Each change and each exchange is in the audit log. */
export class CiTrustStore extends Context.Service<CiTrustStore, {
  /** Fails when the grant is revoked or has `most` trusts. The limit also holds for trusts added at the same time. */
  add(trust: CiTrust, most: number): Effect.Effect<void, GrantNotFound | TooManyCiTrusts | StoreUnavailable>
  /** Those of grants in use, oldest first; of one issuer when named. */
  list(issuer: string | null): Effect.Effect<ReadonlyArray<CiTrust>, StoreUnavailable>
  remove(id: string, at: DateTime.Utc): Effect.Effect<CiTrust, CiTrustNotFound | StoreUnavailable>
  /** Makes a key as `AccessStore.createKey` does, in one transaction with its event. `null`: the trust or its grant is gone. */
  exchange(
    trustId: string,
    key: Omit<KeyRecord, "lastUsedAt" | "revokedAt">,
    keyDigest: string,
    mostKeys: number
  ): Effect.Effect<KeyRecord | null, MintRefused | StoreUnavailable>
}>()("@slipway/domain/CiTrustStore") {
}
