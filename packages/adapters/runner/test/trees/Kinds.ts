/** Where trees may be: what an agent does to its tree comes to the same. */
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as Trees from "@slipway/git/testing/Trees"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import type { Layer } from "effect"
import * as MachineTrees from "../../testing/MachineTrees.ts"

export interface Kind {
  readonly name: string
  readonly layer: (options: Trees.Options) => Layer.Layer<WorkingTrees>
  /** Workspaces of the same `directory`. */
  readonly workspaceIn: (directory: string) => (sandboxId: SandboxId) => string
}

export const onThisMachine: Kind = { name: "on this machine", layer: Trees.layer, workspaceIn: workspacesIn }
export const inAMachine: Kind = { name: "in a machine", layer: MachineTrees.layer, workspaceIn: MachineTrees.workspaceIn }

export const kinds: ReadonlyArray<Kind> = [onThisMachine, inAMachine]
