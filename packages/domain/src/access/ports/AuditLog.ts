/** Port: the append-only log of security events. Checked by `AuditLogContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Actor, AuditEntry, NumberedEntry, Origin, SecurityEvent } from "../schema/SecurityEvent.ts"

export { Action, Actor, Origin } from "../schema/SecurityEvent.ts"
export type { AuditEntry, NumberedEntry, SecurityEvent } from "../schema/SecurityEvent.ts"

/** The actor on whose behalf the fiber runs, for entries of the audit log. Set where a command or a request comes in. */
export const Acting = Context.Reference<Actor>("@slipway/domain/Acting", { defaultValue: () => ({ _tag: "System" }) })

/** The request that the fiber serves, or `null`. Set with `Acting`. */
export const ActingFrom = Context.Reference<Origin | null>("@slipway/domain/ActingFrom", { defaultValue: () => null })

/** Checked by `AuditLogContract`. Stores append what they change in the transaction that changes it. */
export class AuditLog extends Context.Service<AuditLog, {
  /** Appends within the open transaction, if there is one. */
  append(events: ReadonlyArray<SecurityEvent>): Effect.Effect<void, StoreUnavailable>
  /** The newest `limit` entries that are not older than `since`, in the order they were appended. */
  list(page: { readonly since: DateTime.Utc | null; readonly limit: number }): Effect.Effect<ReadonlyArray<AuditEntry>, StoreUnavailable>
  /**
   * The first `limit` entries that are not older than `since` and have a number above `after`, by number. An entry that commits late
   * appears below entries that were read already.
   */
  page(of: { readonly since: DateTime.Utc | null; readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<NumberedEntry>,
    StoreUnavailable
  >
  /**
   * Begins to follow. Each run of the inner effect gives the entries that became visible since the run before, every entry once. An
   * entry becomes visible when its transaction commits, so the order of appending is not kept.
   */
  readonly follow: Effect.Effect<Effect.Effect<ReadonlyArray<AuditEntry>, StoreUnavailable>, StoreUnavailable>
}>()("@slipway/domain/AuditLog") {
}
