/** Who makes a request: the key, and what it stands for. */
import { Schema } from "effect"

/** What a key opens (decisions, section 9). */
export const Scope = Schema.Literals(["sandboxes", "partner:ingest", "webhooks", "metrics:read"])
export type Scope = typeof Scope.Type

/** Who a request is made by, and for which grant. Ids are UUIDs but for `userId` (`user_` and a ULID). */
export interface Principal {
  readonly keyId: string
  /** Owns the sandboxes and the feed; everything a request reads or makes is of this grant. */
  readonly grantId: string
  readonly organizationId: string
  readonly userId: string
  readonly scopes: ReadonlySet<Scope>
  /** A `sbx_test_` key: only models that need no account. */
  readonly test: boolean
}
