/**
 * Port: work on all sandboxes together: finding those that a time limit or a revoked grant ends, deleting expired data, and counting.
 * Checked by `MaintenanceContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"

/** The live sandboxes of all grants at a moment. */
export interface Census {
  /** Sandboxes by status, for the statuses that are not settled. */
  readonly live: Readonly<Record<"queued" | "creating" | "running" | "terminating", number>>
  /** Live sandboxes with a lease. */
  readonly leased: number
  /** Running sandboxes without work and without a lease. They cost nothing. */
  readonly resting: number
  /** Queued sandboxes without a lease. */
  readonly bootsWaiting: number
  /** The creation time of the oldest of those queued sandboxes; `null`: none is queued. */
  readonly oldestQueuedAt: DateTime.Utc | null
  /** Tool calls that wait for a person. */
  readonly pendingApprovals: number
  /** Sandboxes with such a tool call. */
  readonly awaitingApproval: number
}

/** The result of one purge of events. */
export interface Purged {
  /** Sandboxes whose events are deleted completely. */
  readonly sandboxes: number
  /** There may be more to delete. */
  readonly more: boolean
}

/** The sandboxes whose data a machine no longer needs. */
export interface Left {
  /** Ended, or unknown to the store. */
  readonly over: ReadonlyArray<SandboxId>
  /** Live, and another machine has all of their data. */
  readonly moved: ReadonlyArray<SandboxId>
}

/** A sandbox and the time of its first expired limit. Pages are ordered by `at`, then by `id`. */
export interface Due {
  readonly at: DateTime.Utc
  readonly id: SandboxId
}

/** Sandboxes with a time limit at or before `now`, the oldest limit first. */
export interface DuePage {
  /** The store's clock. */
  readonly now: DateTime.Utc
  readonly ids: ReadonlyArray<SandboxId>
  /** The last of `ids`; `null`: the page is empty. */
  readonly last: Due | null
}

/** The newest event of a sandbox's log. */
export interface LogHead {
  readonly id: SandboxId
  readonly seq: number
}

/**
 * Maintenance of a `SandboxStore`'s sandboxes, over all grants. Checked by `MaintenanceContract`. After `StoreUnavailable`, retrying
 * helps and is safe.
 */
export class Maintenance extends Context.Service<Maintenance, {
  /** The store's clock, which decides leases and limits. */
  readonly now: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /**
   * Up to `limit` sandboxes with an expired time limit, after `after`. The `Policy` of this process decides, also for sandboxes written
   * under another one.
   */
  due(limit: number, after?: Due | null): Effect.Effect<DuePage, StoreUnavailable>
  /** Live sandboxes of revoked grants, which have to end. */
  ofRevokedGrants(limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * Deletes the events, the traces of requests, and the `Setups` record of up to `limit` sandboxes that ended at `endedBefore` or
   * earlier. The sandboxes and their messages stay. One call may delete a part of a long log, oldest events first. Deleted parts stay
   * deleted if a later call fails. `own`: other times for the sandboxes of these grants. It also finishes deletions whose process died
   * (`SandboxStore.delete`).
   */
  purgeEvents(endedBefore: DateTime.Utc, limit: number, own?: ReadonlyMap<string, DateTime.Utc>): Effect.Effect<Purged, StoreUnavailable>
  /** Deletes up to `limit` idempotency keys older than `RETENTION_DAYS`, which bind no request any more, and returns their number. */
  purgeKeys(limit: number): Effect.Effect<number, StoreUnavailable>
  /**
   * The given sandboxes whose data the machine no longer needs: ended or unknown ones, and those that arrived on another machine. Each
   * list keeps the given order.
   */
  left(machine: string, ids: ReadonlyArray<SandboxId>): Effect.Effect<Left, StoreUnavailable>
  /**
   * The sandboxes that no machine needs data of: ended or unknown, without work such as a publication, and without a lease. In the
   * given order.
   */
  unneeded(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /**
   * The heads of up to `limit` logs that have events, of sandboxes after the id `after` or from the first, in an order of the store.
   * Logs without stored events are left out.
   */
  heads(after: SandboxId | null, limit: number): Effect.Effect<ReadonlyArray<LogHead>, StoreUnavailable>
  /** For monitoring. The time depends on the number of sandboxes with work, and hardly on resting ones. */
  readonly census: Effect.Effect<Census, StoreUnavailable>
}>()("@slipway/domain/Maintenance") {
}
