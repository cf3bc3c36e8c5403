/** Security events as the audit log stores them: who did what, when, and by which request. */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"

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
