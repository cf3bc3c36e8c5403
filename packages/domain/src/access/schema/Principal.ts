/** The principal of a request: the key or session, its user and its grant. */
import * as Schema from "effect/Schema"
import type { Actor } from "./SecurityEvent.ts"

/** The scopes of a key (docs/decisions/9). */
export const Scope = Schema.Literals(["sandboxes", "sandboxes:delete", "partner:ingest", "webhooks", "secrets", "metrics:read", "models",
  "automations", "audit:read"])
export type Scope = typeof Scope.Type

/** A right of a principal: a scope, or reading alone of what `sandboxes` opens. Keys never have the second as a scope. */
export type Right = Scope | "sandboxes:read"

/** The credential of a request. Ids are UUIDs. */
export type Credential =
  | { readonly _tag: "Key"; readonly keyId: string }
  /** A person's session in a browser. */
  | { readonly _tag: "Session"; readonly sessionId: string }

/** The user and the grant that a request is made for. Ids are UUIDs except `userId` (`user_` and a ULID). */
export interface Principal {
  readonly credential: Credential
  /** Owns the sandboxes and the feed. A request reads and makes things of this grant only. */
  readonly grantId: string
  readonly organizationId: string
  readonly userId: string
  readonly scopes: ReadonlySet<Right>
  /** A `sbx_test_` key. It can use only models that need no account. */
  readonly test: boolean
}

/** The actor in audit log entries of this principal. */
export const actorOf = ({ credential, userId }: Principal): Actor => credential._tag === "Key" ? credential : { _tag: "User", userId }
