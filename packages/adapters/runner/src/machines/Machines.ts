/**
 * The source of sandboxes' machines, each with a runner as its first process. One implementation for each kind of capacity: a command of
 * the operator's, pods of Kubernetes. Only a machine's runner decides which worker may use it, by the fence of a lease.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, type Effect, type Stream } from "effect"
import type { Identity } from "../wire/Identity.ts"
import type { Address, Settings, Way } from "../wire/RunnerSettings.ts"

/** The order of a machine. */
export interface Order {
  readonly sandboxId: SandboxId
  /** The fence of the lease that the machine is made under. In labels it shows people how old the use of a machine is. */
  readonly fence: number
  /** The runner's identity. A secret: it gets to the machine through a file or a descriptor that no other process there can read. */
  readonly identity: Identity
  readonly ways: ReadonlyArray<Way>
}

/** Folders, the same in every machine. They belong to the sandbox's user, except the runner's own. */
export const PLACES = {
  /** The trees, a folder for each repository: the runner's `tree`. */
  workspace: "/workspace",
  /** The runner's own folder with the home in it, on one disk: new content of a home is made beside it first. */
  home: "/home/agent",
  /** Repositories that the worker put there for its own git in the box. Processes of the box may have changed them. */
  repositories: "/repositories",
  /** The runner's own folder. */
  state: "/var/lib/slipway-runner"
} as const

/** A home of its own for each sandbox, because agents save its path. */
export const homeOf = (sandboxId: SandboxId): string => `${PLACES.home}/${sandboxId}`

/** The user of the sandbox's processes. No other process of the machine has it. */
export const USER = { uid: 1000, gid: 1000, marks: 20_000 } as const

/** The runner's settings without its address, which the maker of the machine adds. */
export const settingsOf = ({ identity, sandboxId, ways }: Order): Omit<Settings, "listen" | "beatMillis" | "silenceMillis"> => ({
  tree: PLACES.workspace,
  home: homeOf(sandboxId),
  folders: [PLACES.repositories],
  state: PLACES.state,
  identity,
  user: USER,
  ways
})

/** A machine has ended, or is about to end, without the worker's request. */
export interface Loss {
  readonly sandboxId: SandboxId
  /** Sentences for people. */
  readonly detail: string
  /** The sandbox caused it. */
  readonly ofSandbox: boolean
}

/** Every call is safe to repeat. Calls about one sandbox come one after the other. */
export class Machines extends Context.Service<Machines, {
  readonly isolation: "runner" | "kubernetes"
  /** Names the programs of machines: machines of the same name can share what a setup installed. */
  readonly programs: Effect.Effect<string>
  /**
   * Makes the sandbox's machine, or returns the existing one. Answers once its runner can be dialled, or when that takes too long. A
   * machine that was made for another certificate is removed first, with everything in it.
   */
  ensure(order: Order): Effect.Effect<Address, HostError>
  /** Ends the machine with everything in it. A missing machine is fine. */
  remove(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Sandboxes of this installation with a machine that this worker's machine made. */
  readonly list: Effect.Effect<ReadonlyArray<SandboxId>, HostError>
  /**
   * Losses of machines that this worker's machine made: each is reported once, from now on, and early, before the runner falls silent if
   * possible. No report does not mean that nothing was lost.
   */
  readonly losses: Stream.Stream<Loss>
  /**
   * Ends machines of other workers of this capacity that never came back. `unneeded` is asked about machines older than ten minutes, and
   * answers as `Maintenance.unneeded` does. Answers the sandboxes of the ended machines: none if a worker sees only its own.
   */
  removeAbandoned<E>(
    unneeded: (sandboxIds: ReadonlyArray<SandboxId>) => Effect.Effect<ReadonlyArray<SandboxId>, E>
  ): Effect.Effect<ReadonlyArray<SandboxId>, E | HostError>
}>()("@slipway/runner/Machines") {}
