/** Port: the audit log, which security events are told to and which is never changed. Checked by `testing/AuditLogContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** Who did something. Ids are those of `Principal`. */
export const Actor = Schema.TaggedUnion({
  /** Somebody with the command line of the service's machine. */
  Operator: {},
  User: { userId: Schema.String },
  Key: { keyId: Schema.String },
  /** The service by itself. */
  System: {}
})
export type Actor = typeof Actor.Type

/** What happened, as noun and past participle. */
export const Action = Schema.Literals([
  "key.minted",
  "key.first_used",
  "key.revoked",
  "grant.revoked",
  "user.added",
  "user.bound",
  "user.renamed",
  "user.approved",
  "user.disapproved",
  "member.added",
  "member.removed",
  "organization.added",
  "organization.suspended",
  "organization.resumed",
  "session.started",
  "session.ended",
  "sign_in_link.made",
  "sign_in_link.used",
  "device_login.approved",
  "device_login.denied",
  "webhook.registered",
  "webhook.deleted",
  "webhook.secret_rotated",
  "webhook.enabled",
  "webhook.disabled",
  "secret.set",
  "secret.removed",
  "trusted_ref.listed",
  "trusted_ref.removed",
  "scope.refused",
  "approval.decided",
  "sandbox.restored",
  "sandbox.forked"
])
export type Action = typeof Action.Type

export interface SecurityEvent {
  readonly action: Action
  readonly at: DateTime.Utc
  /** Ids of what it happened to, by what they are the id of, and the role of a member. Never a secret. */
  readonly subjects: Readonly<Record<string, string>>
}

/** The request that somebody acted by. */
export const Origin = Schema.Struct({
  /** As the reply names it. */
  requestId: Schema.String,
  /** An IP address; empty where the transport does not tell. */
  address: Schema.String
})
export type Origin = typeof Origin.Type

/** An entry of the log. */
export interface AuditEntry extends SecurityEvent {
  readonly actor: Actor
  /** `null`: it was no request. */
  readonly origin: Origin | null
}

/** On whose behalf the fiber runs: entries of the audit log name it. Set where a command or a request comes in. */
export const Acting = Context.Reference<Actor>("@slipway/domain/Acting", { defaultValue: () => ({ _tag: "System" }) })

/** By which request the fiber runs. Set with `Acting`. */
export const ActingFrom = Context.Reference<Origin | null>("@slipway/domain/ActingFrom", { defaultValue: () => null })

/** Checked by `testing/AuditLogContract`. Stores append what they change in the transaction that changes it. */
export class AuditLog extends Context.Service<AuditLog, {
  /** Within the transaction that is open, if one is. */
  append(events: ReadonlyArray<SecurityEvent>): Effect.Effect<void, StoreUnavailable>
  /** The newest `limit` entries that are not older than `since`, in the order they were appended. */
  list(page: { readonly since: DateTime.Utc | null; readonly limit: number }): Effect.Effect<ReadonlyArray<AuditEntry>, StoreUnavailable>
  /**
   * Begins to follow. Each time the inner effect runs it gives what came to be there since the last time, or since the
   * beginning: every entry once. An entry is there when its transaction is committed, which others that were appended
   * after it may be before it.
   */
  readonly follow: Effect.Effect<Effect.Effect<ReadonlyArray<AuditEntry>, StoreUnavailable>, StoreUnavailable>
}>()("@slipway/domain/AuditLog") {
}
