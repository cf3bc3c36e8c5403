/**
 * Port: what a service does for all sandboxes together: finding what time or a revoked grant ends, forgetting what nobody was
 * promised any longer, counting. Checked by `testing/UpkeepContract`.
 */
import { Context, type DateTime, type Effect } from "effect"
import type { SandboxId } from "../SandboxId.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** What is live at a moment, in all grants together. */
export interface Census {
  /** Sandboxes by the statuses that are not settled. */
  readonly live: Readonly<Record<"queued" | "creating" | "running" | "terminating", number>>
  /** Of those, the ones that a worker holds a lease of. */
  readonly leased: number
  /** When the longest waiting one of those queued was created; `null`: none is queued. */
  readonly oldestQueuedAt: DateTime.Utc | null
  /** Tool calls that wait for a person. */
  readonly pendingApprovals: number
}

/**
 * What is to be done for the sandboxes of a `SandboxStore`, whosever they are. Checked by `testing/UpkeepContract`.
 * `StoreUnavailable`: retrying helps, and is safe everywhere.
 */
export class Upkeep extends Context.Service<Upkeep, {
  /** What time it is by the store's own clock, which leases and limits go by. */
  readonly now: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /** Sandboxes of which a time limit has come by `now` of the store's own clock, oldest limit first. */
  due(limit: number): Effect.Effect<{ readonly now: DateTime.Utc; readonly ids: ReadonlyArray<SandboxId> }, StoreUnavailable>
  /** Live sandboxes whose grant was revoked: they are to end. */
  ofRevokedGrants(limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * Forgets the events of up to `limit` sandboxes that ended at `endedBefore` or earlier and are still ended; the
   * sandboxes themselves and their messages stay. Says of how many.
   */
  purgeEvents(endedBefore: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /** Forgets up to `limit` idempotency keys that are older than `RETENTION_DAYS`, which bind nothing any more. Says how many. */
  purgeKeys(limit: number): Effect.Effect<number, StoreUnavailable>
  /** Which of these sandboxes are over, or unknown: whatever a host still has of them can go. */
  over(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** For those who watch over the service. Takes time by the number of live sandboxes alone. */
  readonly census: Effect.Effect<Census, StoreUnavailable>
}>()("@slipway/domain/Upkeep") {
}
