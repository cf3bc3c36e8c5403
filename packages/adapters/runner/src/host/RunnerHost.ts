/** The state of a host of machines, which its operations share. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import type { Effect, Scope } from "effect"
import type { Machines } from "../machines/Machines.ts"
import type { MachineRegistry } from "./MachineRegistry.ts"
import type { RunnerConnections } from "./RunnerConnections.ts"

/** One sandbox of this process that was provisioned and is not at rest. */
export interface Live {
  readonly box: Box
  /** The scope of its proxy. */
  readonly scope: Scope.Closeable
  readonly serve: Egress.Serve
}

/** The egress tunnel of every machine. */
export const EGRESS = { name: "egress", port: Egress.PORT }

export interface RunnerHost {
  /** Holds the files of `known`. */
  readonly directory: string
  readonly known: MachineRegistry
  readonly machines: Machines["Service"]
  readonly connections: RunnerConnections
  readonly egress: Egress.Egress["Service"]
  /** The scope of the host. */
  readonly scope: Scope.Scope
  readonly lives: Map<SandboxId, Live>
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}
