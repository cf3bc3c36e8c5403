import { assert, describe, it } from "@effect/vitest"
import { Action, Actor, Origin } from "@slipway/domain/access/schema/SecurityEvent"
import * as Schema from "effect/Schema"

/** Stored entries are never changed: an action that is missing here, or written in another way, makes a log unreadable. */
const stored: Readonly<Record<Action, true>> = {
  "key.minted": true,
  "key.first_used": true,
  "key.revoked": true,
  "grant.revoked": true,
  "retention.set": true,
  "grant.branches_set": true,
  "user.added": true,
  "user.bound": true,
  "user.renamed": true,
  "user.approved": true,
  "user.disapproved": true,
  "member.added": true,
  "member.removed": true,
  "organization.added": true,
  "organization.suspended": true,
  "organization.resumed": true,
  "session.started": true,
  "session.ended": true,
  "sign_in_link.made": true,
  "sign_in_link.used": true,
  "device_login.approved": true,
  "device_login.denied": true,
  "ci_trust.added": true,
  "ci_trust.removed": true,
  "ci_token.exchanged": true,
  "webhook.registered": true,
  "webhook.deleted": true,
  "webhook.secret_rotated": true,
  "webhook.enabled": true,
  "webhook.disabled": true,
  "automation.created": true,
  "automation.changed": true,
  "automation.deleted": true,
  "automation.secret_rotated": true,
  "automation.enabled": true,
  "automation.paused": true,
  "automation_run.refused": true,
  "secret.set": true,
  "secret.removed": true,
  "model_provider.set": true,
  "model_provider.removed": true,
  "repository.added": true,
  "repository.removed": true,
  "repository_settings.changed": true,
  "repository_alias.set": true,
  "repository_alias.removed": true,
  "source_host.connected": true,
  "source_host.disconnected": true,
  "mcp_server.set": true,
  "mcp_server.removed": true,
  "mcp_server.connected": true,
  "trusted_ref.listed": true,
  "trusted_ref.removed": true,
  "scope.refused": true,
  "approval.decided": true,
  "sandbox.restored": true,
  "sandbox.forked": true,
  "sandbox.deleted": true,
  "sandbox.archived": true,
  "sandbox.unarchived": true,
  "terminal.opened": true,
  "preview.opened": true
}

describe("a stored security event", () => {
  it.each(Object.keys(stored))("is read with the action %s", (action) => assert.isTrue(Schema.is(Action)(action)))

  it("is not read with an unknown action", () => assert.isFalse(Schema.is(Action)("key.lost")))

  it.each<readonly [what: string, actor: unknown, isRead: boolean]>([
    ["an operator", { _tag: "Operator" }, true],
    ["a user", { _tag: "User", userId: "user_1" }, true],
    ["a user without an id", { _tag: "User" }, false],
    ["a key", { _tag: "Key", keyId: "key_1" }, true],
    ["a key without an id", { _tag: "Key" }, false],
    ["the service", { _tag: "System" }, true],
    ["an unknown actor", { _tag: "Agent" }, false]
  ])("by %s", (_, actor, isRead) => assert.strictEqual(Schema.is(Actor)(actor), isRead))

  it("has the id and the address of its request", () => {
    const isOrigin = Schema.is(Origin)
    assert.isTrue(isOrigin({ requestId: "req_1", address: "" }))
    assert.isFalse(isOrigin({ requestId: "req_1" }))
    assert.isFalse(isOrigin({ address: "192.0.2.1" }))
  })
})
