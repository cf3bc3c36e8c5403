/**
 * Port: which worker runs which sandbox. A lease is the time and the fence in the sandbox's row, so that every write of a worker is
 * checked against it. Checked by `LeasesContract`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { Room } from "../rules/LeaseRules.ts"
import type { Sandbox } from "../rules/Sandbox.ts"

/** Another worker has the lease by now, or the sandbox is unknown. Nothing was written. Stop working for the sandbox. */
export class StaleLease extends Schema.TaggedError<StaleLease>()("StaleLease", {}) {}

/** A worker's right to run a sandbox until the lease expires. Every write carries `fence`; a newer lease has a higher one. */
export interface Lease {
  readonly sandboxId: SandboxId
  readonly fence: number
}

/** A sandbox that the worker runs from now on. */
export interface Leased {
  readonly lease: Lease
  readonly sandbox: Sandbox
  /** The agent's own session id, if an earlier worker recorded one. */
  readonly agentSession: string | null
  /**
   * Why trees and box are on another machine: that machine gave the sandbox up (`drained`), or did not take it in time (`lost`).
   * `null`: they are on this machine. It stays for later workers of other machines until `arrived`.
   */
  readonly moved: "drained" | "lost" | null
}

/** The holder of leases. */
export interface Worker {
  /** Unique per process. */
  readonly worker: string
  /** The machine whose disk holds the working trees. It outlives the process. */
  readonly machine: string
}

/** The machine of this process. Its layer keeps other processes from being workers of the same machine where the system allows that. */
export class ThisMachine extends Context.Service<ThisMachine, {
  /** Unique among the machines of one store, and the same after a restart if the disk is. */
  readonly id: string
  /** Whether no other process can be a worker of this machine now, so that leases of an earlier worker may be ended. */
  readonly isAlone: boolean
}>()("@slipway/domain/ThisMachine") {}

/** The duration of a lease: long enough for a pause, short enough for a takeover that people do not notice. */
export const LEASE_SECONDS = 30
/** The interval at which a worker renews its leases: three chances before a lease expires. */
export const LEASE_RENEWAL_SECONDS = 10

/** The leases of a `SandboxStore`'s sandboxes. Checked by `LeasesContract`. After `StoreUnavailable`, retrying helps and is safe. */
export class Leases extends Context.Service<Leases, {
  /**
   * Leases sandboxes that need a worker, as many as `room` allows. `leaseOrder` decides: the grant with the fewest active sandboxes
   * comes first, and within a grant the longest waiting sandbox. A sandbox of a lost worker, or a resting one with new work, goes to a
   * worker of its machine at once. It goes to another machine after `Policy.lost`, or when its machine gave it up.
   */
  take(by: Worker, room: Room): Effect.Effect<ReadonlyArray<Leased>, StoreUnavailable>
  /** Records that the lease's machine has all of the sandbox's data, as `sandbox.restored` also does. */
  arrived(lease: Lease): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** Extends leases, and returns those that are still held. */
  renew(leases: ReadonlyArray<Lease>): Effect.Effect<ReadonlyArray<Lease>, StoreUnavailable>
  /**
   * Ends every lease of a machine, including those of ended sandboxes. For a starting worker that is the only one on its machine:
   * leases of a killed worker need not expire. It hints no worker; the caller looks for work itself. The sandboxes still belong to the
   * machine, and each lease stays the newest until the sandbox is taken.
   */
  endLeases(machine: string): Effect.Effect<void, StoreUnavailable>
  /**
   * Returns a lease if the sandbox needs no worker, and answers whether it did. Later work finds no lease and hints `WORK`. The machine
   * is remembered and can take the sandbox first.
   */
  rest(lease: Lease): Effect.Effect<boolean, StaleLease | StoreUnavailable>
  /**
   * Returns a lease, so that the next worker need not wait until it expires. A stale lease is ignored without a hint. `mayMove`: this
   * machine gives the sandbox up, and any machine may take it at once if it has no unsaved data (`isGivenUp`).
   */
  release(lease: Lease, options?: { readonly mayMove: boolean }): Effect.Effect<void, StoreUnavailable>
  /**
   * `true`: the machine gives up all its sandboxes without a lease, and any machine may take those without unsaved data at once.
   * `false`: the machine is back, and sandboxes that were not taken belong to it again. The time does not depend on their number.
   */
  drain(machine: string, isDraining: boolean): Effect.Effect<void, StoreUnavailable>
  /** Records the agent's own session id; `null`: there is no conversation to continue. */
  saveAgentSession(lease: Lease, agentSession: string | null): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** The machine that ran most of these sandboxes; `null`: no machine ran any, or they are unknown. */
  machineOf(ids: ReadonlyArray<SandboxId>): Effect.Effect<string | null, StoreUnavailable>
}>()("@slipway/domain/Leases") {
}
