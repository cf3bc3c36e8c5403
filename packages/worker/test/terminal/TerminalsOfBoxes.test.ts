/** Terminals in boxes without isolation. */
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { running, temporaryFolder, workspaceFor, workspaceOf } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { register } from "./TerminalRules.ts"

register({
  kind: "none",
  absent: process.platform === "linux" ? undefined : "needs Linux",
  layer: Layer.unwrap(
    Effect.map(temporaryFolder, (folder) => SandboxHostNone.layer({ directory: join(folder, "boxes"), workspaceOf }))
  ),
  running,
  workspace: workspaceFor
})
