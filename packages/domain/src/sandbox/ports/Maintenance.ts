/**
 * Port: what a service does for all sandboxes together: finding what time or a revoked grant ends, forgetting what nobody was
 * promised any longer, counting. Checked by `MaintenanceContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"

/** What is live at a moment, in all grants together. */
export interface Census {
  /** Sandboxes by the statuses that are not settled. */
  readonly live: Readonly<Record<"queued" | "creating" | "running" | "terminating", number>>
  /** Of those, the ones that a worker holds a lease of. */
  readonly leased: number
  /** Running ones without work that nobody holds: they cost nothing. */
  readonly resting: number
  /** Queued ones that no worker holds yet. */
  readonly bootsWaiting: number
  /** When the longest waiting one of those queued was created; `null`: none is queued. */
  readonly oldestQueuedAt: DateTime.Utc | null
  /** Tool calls that wait for a person. */
  readonly pendingApprovals: number
  /** Sandboxes in which at least one does. */
  readonly awaitingApproval: number
}

/** What one purge of events did. */
export interface Purged {
  /** Sandboxes of which all is forgotten now. */
  readonly sandboxes: number
  /** There may be more to forget. */
  readonly more: boolean
}

/** What a machine still has, and no longer needs. */
export interface Left {
  /** Over, or unknown to the store. */
  readonly over: ReadonlyArray<SandboxId>
  /** Live, and another machine has everything of it. */
  readonly moved: ReadonlyArray<SandboxId>
}

/** A sandbox and the moment when its first time limit came due. Pages of what is due are ordered by `at`, then by `id`. */
export interface Due {
  readonly at: DateTime.Utc
  readonly id: SandboxId
}

/** Sandboxes with a time limit that has come by `now`, the oldest limit first. */
export interface DuePage {
  /** By the store's own clock. */
  readonly now: DateTime.Utc
  readonly ids: ReadonlyArray<SandboxId>
  /** Of the last of `ids`; `null`: there are none. */
  readonly last: Due | null
}

/**
 * What is to be done for the sandboxes of a `SandboxStore`, whosever they are. Checked by `MaintenanceContract`.
 * `StoreUnavailable`: retrying helps, and is safe everywhere.
 */
export class Maintenance extends Context.Service<Maintenance, {
  /** What time it is by the store's own clock, which leases and limits go by. */
  readonly now: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /**
   * Up to `limit` sandboxes with a time limit that has come, of those behind `after`. The `Policy` of this process decides, also about
   * sandboxes that were written under another one.
   */
  due(limit: number, after?: Due | null): Effect.Effect<DuePage, StoreUnavailable>
  /** Live sandboxes whose grant was revoked: they are to end. */
  ofRevokedGrants(limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * Forgets the events, the traces of who asked, and what `Setups` keeps, of up to `limit` sandboxes that ended at `endedBefore` or
   * earlier and are still ended; the sandboxes themselves and their messages stay. One call may forget a part of long logs, the oldest
   * events of each first: what it forgot stays forgotten, whatever becomes of the next call.
   */
  purgeEvents(endedBefore: DateTime.Utc, limit: number): Effect.Effect<Purged, StoreUnavailable>
  /** Forgets up to `limit` idempotency keys that are older than `RETENTION_DAYS`, which bind nothing any more. Says how many. */
  purgeKeys(limit: number): Effect.Effect<number, StoreUnavailable>
  /**
   * What a machine need not keep of these sandboxes, of which it has something: those that are over or unknown, and those that
   * another machine has arrived with. Each in the order given.
   */
  left(machine: string, ids: ReadonlyArray<SandboxId>): Effect.Effect<Left, StoreUnavailable>
  /**
   * Those of them that no machine need keep anything of: over or unknown, without work, a publication say, and held by no worker. In the
   * order given.
   */
  unneeded(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** For those who watch over the service. Takes time by the number of sandboxes that have work, and hardly by those at rest. */
  readonly census: Effect.Effect<Census, StoreUnavailable>
}>()("@slipway/domain/Maintenance") {
}
