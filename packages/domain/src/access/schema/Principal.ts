/** Who makes a request: the key, and what it stands for. */
import * as Schema from "effect/Schema"
import type { Actor } from "./SecurityEvent.ts"

/** What a key opens (docs/decisions/9). */
export const Scope = Schema.Literals(["sandboxes", "partner:ingest", "webhooks", "secrets", "metrics:read"])
export type Scope = typeof Scope.Type

/** What a request proves with who makes it. Ids are UUIDs. */
export type Credential =
  | { readonly _tag: "Key"; readonly keyId: string }
  /** A person's, in a browser. */
  | { readonly _tag: "Session"; readonly sessionId: string }

/** Who a request is made by, and for which grant. Ids are UUIDs but for `userId` (`user_` and a ULID). */
export interface Principal {
  readonly credential: Credential
  /** Owns the sandboxes and the feed; everything a request reads or makes is of this grant. */
  readonly grantId: string
  readonly organizationId: string
  readonly userId: string
  readonly scopes: ReadonlySet<Scope>
  /** A `sbx_test_` key: only models that need no account. */
  readonly test: boolean
}

/** On whose behalf the audit log says that something was done. */
export const actorOf = ({ credential, userId }: Principal): Actor => credential._tag === "Key" ? credential : { _tag: "User", userId }
