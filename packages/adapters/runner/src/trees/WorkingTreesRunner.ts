/** `WorkingTrees` whose trees are in the machines of their sandboxes (`machine/TreesInMachine`). */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { Effect, Layer } from "effect"
import { Runners } from "../client/Runners.ts"
import { PLACES } from "../machines/Machines.ts"
import * as TreesInMachine from "./TreesInMachine.ts"

/** `directory`: this machine's folder of trees and mirrors. */
export interface Options extends Omit<WorkingTreesGit.Options, "bootId" | "folders" | "objectsInBox"> {
  /** Default: `PLACES`, as in every real machine. */
  readonly places?: (sandboxId: SandboxId) => TreesInMachine.Places
}

const TOO_LARGE = { detail: "Its files do not fit on the disk of the sandbox's machine.", retryable: false }

/** Git works on a tree in the box that the host has for its sandbox. */
export const layer = (options: Options): Layer.Layer<WorkingTrees, never, Runners | SandboxHost> =>
  Layer.effect(
    WorkingTrees,
    WorkingTreesGit.make(
      options,
      Effect.fnUntraced(function*({ sandboxDirectory }) {
        return TreesInMachine.make({
          places: options.places ?? (() => PLACES),
          runners: yield* Runners,
          sandboxDirectory,
          tooLarge: TOO_LARGE
        })
      })
    )
  )
