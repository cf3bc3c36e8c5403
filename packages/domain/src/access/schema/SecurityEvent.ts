/** Security events as the audit log stores them: actor, action, time and request. */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"

/** The actor of a security event. Ids are those of `Principal`. */
export const Actor = Schema.TaggedUnion({
  /** A person at the command line of the service's machine. */
  Operator: {},
  User: { userId: Schema.String },
  Key: { keyId: Schema.String },
  /** The service itself. */
  System: {}
})
export type Actor = typeof Actor.Type

/** The actions, each a noun and a past participle. */
export const Action = Schema.Literals([
  "key.minted",
  "key.first_used",
  "key.revoked",
  "grant.revoked",
  "retention.set",
  "grant.branches_set",
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
  "ci_trust.added",
  "ci_trust.removed",
  "ci_token.exchanged",
  "webhook.registered",
  "webhook.deleted",
  "webhook.secret_rotated",
  "webhook.enabled",
  "webhook.disabled",
  "automation.created",
  "automation.changed",
  "automation.deleted",
  "automation.secret_rotated",
  "automation.enabled",
  "automation.paused",
  "automation_run.refused",
  "secret.set",
  "secret.removed",
  "trusted_ref.listed",
  "trusted_ref.removed",
  "model_provider.set",
  "model_provider.removed",
  "repository.added",
  "repository.removed",
  "repository_settings.changed",
  "repository_alias.set",
  "repository_alias.removed",
  "source_host.connected",
  "source_host.disconnected",
  "mcp_server.set",
  "mcp_server.removed",
  "mcp_server.connected",
  "scope.refused",
  "approval.decided",
  "sandbox.restored",
  "sandbox.forked",
  "sandbox.deleted",
  "sandbox.archived",
  "sandbox.unarchived",
  "terminal.opened",
  "preview.opened"
])
export type Action = typeof Action.Type

/** A security event before it has an actor and an origin. */
export interface SecurityEvent {
  readonly action: Action
  readonly at: DateTime.Utc
  /** The ids of the affected objects by their kind, and the role of a member. Never a secret. */
  readonly subjects: Readonly<Record<string, string>>
}

/** The request that caused a security event. */
export const Origin = Schema.Struct({
  /** The request id in the response. */
  requestId: Schema.String,
  /** An IP address; empty if the transport does not know it. */
  address: Schema.String
})
export type Origin = typeof Origin.Type

/** An entry with its number, by which a reader continues. Numbers grow; some are missing. */
export interface NumberedEntry {
  readonly number: number
  readonly entry: AuditEntry
}

/** A security event with its actor and origin. */
export interface AuditEntry extends SecurityEvent {
  readonly actor: Actor
  /** `null`: no request caused it. */
  readonly origin: Origin | null
}
