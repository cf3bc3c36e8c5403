import { MemoryDisk, workspaceOf } from "@slipway/domain/memory/files/MemoryDisk"
import * as SandboxHostMemory from "@slipway/domain/memory/sandbox/SandboxHostMemory"
import { lifecycle } from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export const suites = () => [
  lifecycle("memory", Layer.provide(SandboxHostMemory.layer, MemoryDisk.layer), {
    workspace: (sandboxId) => Effect.succeed(workspaceOf(sandboxId))
  })
]
