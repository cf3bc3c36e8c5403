/** Port: which workers there are, and what room each says it has (docs/decisions/15). Checked by `WorkersContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Worker } from "./Leases.ts"

/** How much there is of something, and how much of that is taken. What people set free may take more than there is for a moment. */
export interface Share {
  readonly all: number
  readonly taken: number
}

/** What a worker says of itself. */
export interface WorkerReport extends Worker {
  /** Agents at work or booting. */
  readonly slots: Share
  /** Agent processes that are alive, with those that are warm or wait for a person. */
  readonly agents: Share
  readonly boots: Share
  /** It begins nothing any more, and ends as soon as what it holds is handed on. */
  readonly isDraining: boolean
}

export interface KnownWorker extends WorkerReport {
  readonly seenAt: DateTime.Utc
  /** It was heard of within {@link GONE_SECONDS}. */
  readonly isThere: boolean
}

/** A worker that was not heard of for so long is gone. Each tells of itself as often as it renews its leases. */
export const GONE_SECONDS = 90
/** One that is gone is still told of for so long. */
export const FORGOTTEN_SECONDS = 3600
/** More are not told of. */
export const MAX_WORKERS = 200

/** Checked by `WorkersContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class Workers extends Context.Service<Workers, {
  /** Also says that the worker is there. The last report counts. */
  report(report: WorkerReport): Effect.Effect<void, StoreUnavailable>
  /** The worker ends: it is told of no more. */
  leave(worker: string): Effect.Effect<void, StoreUnavailable>
  /** By machine, then by worker: the first {@link MAX_WORKERS} that were heard of within {@link FORGOTTEN_SECONDS}. */
  readonly list: Effect.Effect<ReadonlyArray<KnownWorker>, StoreUnavailable>
}>()("@slipway/domain/Workers") {
}
