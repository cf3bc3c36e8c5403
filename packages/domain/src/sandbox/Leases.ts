/**
 * Port: which worker works for which sandbox. A lease is a row's own time and fence, so that every write of a worker can be
 * held against it. Checked by `testing/LeasesContract`.
 */
import { Context, type Effect, Schema } from "effect"
import type { SandboxId } from "../SandboxId.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { Sandbox } from "./Sandbox.ts"

/** The lease is another worker's by now. Nothing was written; stop working for this sandbox. */
export class StaleLease extends Schema.TaggedError<StaleLease>()("StaleLease", {}) {}

/** A worker's right to work for a sandbox until the lease runs out. Every write carries `fence`; a newer lease has a higher one. */
export interface Lease {
  readonly sandboxId: SandboxId
  readonly fence: number
}

/** A sandbox a worker may work for from now on. */
export interface Leased {
  readonly lease: Lease
  readonly sandbox: Sandbox
  /** The agent's own session id, when an earlier worker got as far. */
  readonly agentSession: string | null
  /** Whether the trees and the box of a lost worker are on another machine. */
  readonly elsewhere: boolean
}

/** Who leases sandboxes. */
export interface Worker {
  /** Unique per process. */
  readonly worker: string
  /** The machine whose disk holds the working trees; outlives the process. */
  readonly machine: string
}

/** Durations of leases: long enough for a pause, short enough for a takeover that people do not notice. */
export const LEASE_SECONDS = 30
/** How often a worker renews its leases: three chances before one runs out. */
export const LEASE_RENEWAL_SECONDS = 10

/**
 * Who works for which sandbox, over the sandboxes of a `SandboxStore`. Checked by `testing/LeasesContract`. `StoreUnavailable`:
 * retrying helps, and is safe everywhere.
 */
export class Leases extends Context.Service<Leases, {
  /**
   * Leases up to `limit` sandboxes that need a worker and have none, and beyond them up to `ending` (default: `limit`) that
   * are ending: they free room, and a full worker must not keep them from it. The rule is `leaseOrder`:
   * grants take turns, the one of which workers hold fewest first, and within a grant the longest waiting goes first. A lost
   * worker's sandbox goes to a worker of the same machine at once, to another machine only after `Policy.lost`.
   */
  take(by: Worker, limit: number, ending?: number): Effect.Effect<ReadonlyArray<Leased>, StoreUnavailable>
  /** Extends leases; returns those that are still held. */
  renew(leases: ReadonlyArray<Lease>): Effect.Effect<ReadonlyArray<Lease>, StoreUnavailable>
  /**
   * Ends every lease of a machine. For a worker that starts and knows that no other one runs there: what a killed one
   * held need not wait for its end.
   */
  endLeases(machine: string): Effect.Effect<void, StoreUnavailable>
  /** Gives a lease back, so that another worker need not wait for its end. A stale one is ignored. */
  release(lease: Lease): Effect.Effect<void, StoreUnavailable>
  /** Remembers the agent's own session id. */
  saveAgentSession(lease: Lease, agentSession: string): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** The machine that worked for most of these sandboxes; `null`: none did, or they are unknown. */
  machineOf(ids: ReadonlyArray<SandboxId>): Effect.Effect<string | null, StoreUnavailable>
}>()("@slipway/domain/Leases") {
}
