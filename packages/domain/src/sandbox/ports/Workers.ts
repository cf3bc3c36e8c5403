/** Port: the present workers, with the capacity that each reports (docs/decisions/15). Checked by `WorkersContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Worker } from "./Leases.ts"

/** A total and the part in use. Resumed sandboxes may exceed the total for a moment. */
export interface Share {
  readonly all: number
  readonly taken: number
}

/** A worker's report about itself. */
export interface WorkerReport extends Worker {
  /** Agents that work or boot. */
  readonly slots: Share
  /** Live agent processes, including idle ones and those that wait for a person. */
  readonly agents: Share
  readonly boots: Share
  /** The worker takes no sandboxes any more, and ends when it has handed over its own. */
  readonly isDraining: boolean
}

/** A worker that reported recently. */
export interface KnownWorker extends WorkerReport {
  readonly seenAt: DateTime.Utc
  /** Its last report is at most {@link GONE_SECONDS} old. */
  readonly isThere: boolean
}

/** A worker whose last report is older is gone. Workers report each time they renew their leases. */
export const GONE_SECONDS = 90
/** A worker whose last report is older is not listed. */
export const FORGOTTEN_SECONDS = 3600
/** The workers of a list. */
export const MAX_WORKERS = 200

/** Checked by `WorkersContract`. After `StoreUnavailable`, retrying helps and is safe. */
export class Workers extends Context.Service<Workers, {
  /** Stores the worker's newest report, which also shows that the worker is there. */
  report(report: WorkerReport): Effect.Effect<void, StoreUnavailable>
  /** Removes an ended worker from the list. */
  leave(worker: string): Effect.Effect<void, StoreUnavailable>
  /** By machine, then by worker: the first {@link MAX_WORKERS} that reported within {@link FORGOTTEN_SECONDS}. */
  readonly list: Effect.Effect<ReadonlyArray<KnownWorker>, StoreUnavailable>
}>()("@slipway/domain/Workers") {
}
