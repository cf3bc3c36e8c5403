/**
 * Where the machines of sandboxes come from, each with a runner as its first process. One implementation for each kind of capacity: a
 * program of the operator's, pods of Kubernetes. Which worker may use a machine is settled by its runner, by the fence of a lease, and
 * by nobody else.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, type Effect, type Stream } from "effect"
import type { Identity } from "../wire/Identity.ts"
import type { Address, Settings, Way } from "../wire/RunnerSettings.ts"

/** A machine as it is to be. */
export interface Order {
  readonly sandboxId: SandboxId
  /** Of the lease it is made under: for labels, so that whoever looks at a machine knows how old it is. */
  readonly fence: number
  /** The runner's. A secret: it gets to the machine through a file or a descriptor that nobody else there reads. */
  readonly identity: Identity
  readonly ways: ReadonlyArray<Way>
}

/** The same in every machine. Folders are the sandbox user's, but for the runner's own. */
export const PLACES = {
  /** Where the trees are, a folder for each repository: what the runner calls its tree. */
  workspace: "/workspace",
  /** The runner's own folder with the home in it, on one disk: what is written into a home is made beside it first. */
  home: "/home/agent",
  /** Repositories that the worker put there for its own git in the box. Whoever runs in the box may have written to them. */
  repositories: "/repositories",
  /** The runner's own. */
  state: "/var/lib/slipway-runner"
} as const

/** Another one for each sandbox: agents keep it in what they save. */
export const homeOf = (sandboxId: SandboxId): string => `${PLACES.home}/${sandboxId}`

/** Who the sandbox's processes are in its machine, and nobody else there. */
export const USER = { uid: 1000, gid: 1000, marks: 20_000 } as const

/** The runner's settings but for where it listens, which whoever makes the machine knows. */
export const settingsOf = ({ identity, sandboxId, ways }: Order): Omit<Settings, "listen" | "beatMillis" | "silenceMillis"> => ({
  tree: PLACES.workspace,
  home: homeOf(sandboxId),
  folders: [PLACES.repositories],
  state: PLACES.state,
  identity,
  user: USER,
  ways
})

/** A machine has ended, or is about to, and its worker did not ask for it. */
export interface Loss {
  readonly sandboxId: SandboxId
  /** Sentences for people. */
  readonly detail: string
  /** The sandbox brought it about. */
  readonly ofSandbox: boolean
}

/** Every call is safe to repeat. Those about one sandbox are not made at once. */
export class Machines extends Context.Service<Machines, {
  readonly isolation: "runner" | "kubernetes"
  /** Names the programs that machines have: of the same name, what a setup installed with some works with the others. */
  readonly programs: Effect.Effect<string>
  /**
   * Makes the sandbox's machine, or returns the one that is there. Answers once its runner can be dialled, or when that takes too
   * long. One that was made for another certificate is removed first, with all that is in it: nothing that an earlier one left is adopted.
   */
  ensure(order: Order): Effect.Effect<Address, HostError>
  /** Ends the machine with all that is in it. One that is not there is fine. */
  remove(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Sandboxes of this installation with a machine that this worker's machine made. */
  readonly list: Effect.Effect<ReadonlyArray<SandboxId>, HostError>
  /**
   * Of machines that this worker's machine made: once for each, from now on, and early: the runner is silent soon, if it is not already.
   * None is a promise that nothing was lost.
   */
  readonly losses: Stream.Stream<Loss>
  /**
   * Ends machines that others made who share this capacity, and never came back. `unneeded` is asked about those of ten minutes and more,
   * and answers as `Maintenance.unneeded` does. Answers whose were ended: none where a worker sees its own alone.
   */
  removeAbandoned<E>(
    unneeded: (sandboxIds: ReadonlyArray<SandboxId>) => Effect.Effect<ReadonlyArray<SandboxId>, E>
  ): Effect.Effect<ReadonlyArray<SandboxId>, E | HostError>
}>()("@slipway/runner/Machines") {}
