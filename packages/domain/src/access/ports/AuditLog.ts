/** Port: the audit log, which security events are told to and which is never changed. Checked by `AuditLogContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Actor, AuditEntry, Origin, SecurityEvent } from "../schema/SecurityEvent.ts"

export { Action, Actor, Origin } from "../schema/SecurityEvent.ts"
export type { AuditEntry, SecurityEvent } from "../schema/SecurityEvent.ts"

/** On whose behalf the fiber runs: entries of the audit log name it. Set where a command or a request comes in. */
export const Acting = Context.Reference<Actor>("@slipway/domain/Acting", { defaultValue: () => ({ _tag: "System" }) })

/** By which request the fiber runs. Set with `Acting`. */
export const ActingFrom = Context.Reference<Origin | null>("@slipway/domain/ActingFrom", { defaultValue: () => null })

/** Checked by `AuditLogContract`. Stores append what they change in the transaction that changes it. */
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
