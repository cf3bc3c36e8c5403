import { MemoryDisk } from "@slipway/domain/memory/MemoryDisk"
import * as SandboxHostMemory from "@slipway/domain/memory/SandboxHostMemory"
import { lifecycle } from "@slipway/domain/testing/SandboxHostContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

let folders = 0

export const suites = () => [
  lifecycle("memory", Layer.provide(SandboxHostMemory.layer, MemoryDisk.layer), {
    workspace: Effect.sync(() => `/memory/work/${++folders}`)
  })
]
