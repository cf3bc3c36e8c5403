/**
 * Port: which worker works for which sandbox. A lease is a row's own time and fence, so that every write of a worker can be
 * held against it. Checked by `LeasesContract`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Room } from "../rules/LeaseRules.ts"
import type { Sandbox } from "../rules/Sandbox.ts"

/** The lease is another worker's by now, or of an unknown sandbox. Nothing was written; stop working for it. */
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
  /**
   * Why trees and box are on another machine: it gave the sandbox up, or did not come for it in time. `null`: they are not. Whoever
   * is given it before a worker has arrived with it is told the same; the machine that has them is told `null`.
   */
  readonly moved: "drained" | "lost" | null
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
 * Who works for which sandbox, over the sandboxes of a `SandboxStore`. Checked by `LeasesContract`. `StoreUnavailable`:
 * retrying helps, and is safe everywhere.
 */
export class Leases extends Context.Service<Leases, {
  /**
   * Leases sandboxes that need a worker and have none, as many as there is room for. The rule is `leaseOrder`: grants take
   * turns, the one of which workers hold fewest at work first, and within a grant the longest waiting goes first. A lost
   * worker's sandbox, and one at rest that is needed again, goes to a worker of the same machine at once, to another machine
   * only after `Policy.lost` or when its own gave it up.
   */
  take(by: Worker, room: Room): Effect.Effect<ReadonlyArray<Leased>, StoreUnavailable>
  /** The lease's machine has everything of the sandbox by now, as `sandbox.restored` says as well. */
  arrived(lease: Lease): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** Extends leases; returns those that are still held. */
  renew(leases: ReadonlyArray<Lease>): Effect.Effect<ReadonlyArray<Lease>, StoreUnavailable>
  /**
   * Ends every lease of a machine that holds, also of what is over. For a worker that starts and knows that no other one runs there:
   * what a killed one held need not wait for its end. Nobody is woken: whoever calls it looks for work itself. The machine gives
   * nothing up, and a lease stays the newest one until somebody takes the sandbox.
   */
  endLeases(machine: string): Effect.Effect<void, StoreUnavailable>
  /**
   * Gives a lease back if the sandbox needs no worker by then, and says whether it did; else the lease stays. Whatever makes
   * work later finds the lease gone and hints `WORK`. The machine stays noted: it is asked first.
   */
  rest(lease: Lease): Effect.Effect<boolean, StaleLease | StoreUnavailable>
  /**
   * Gives a lease back, so that another worker need not wait for its end. A stale one is ignored and wakes nobody. `mayMove`: this machine
   * gives the sandbox up, and any other one may have it at once.
   */
  release(lease: Lease, options?: { readonly mayMove: boolean }): Effect.Effect<void, StoreUnavailable>
  /**
   * `true`: the machine gives up all that no worker holds, and any other one may have it at once. `false`: it is back, and what
   * nobody took in the meantime is its own again. Takes the same time however many there are.
   */
  drain(machine: string, isDraining: boolean): Effect.Effect<void, StoreUnavailable>
  /** Remembers the agent's own session id; `null`: there is no conversation to go on with. */
  saveAgentSession(lease: Lease, agentSession: string | null): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** The machine that worked for most of these sandboxes; `null`: none did, or they are unknown. */
  machineOf(ids: ReadonlyArray<SandboxId>): Effect.Effect<string | null, StoreUnavailable>
}>()("@slipway/domain/Leases") {
}
