import { MemoryDisk } from "@slipway/domain/memory/MemoryDisk"
import * as SandboxHostMemory from "@slipway/domain/memory/SandboxHostMemory"
import { lifecycle } from "@slipway/domain/testing/SandboxHostContract"
import { Effect, Layer } from "effect"

let folders = 0

lifecycle("memory", Layer.provide(SandboxHostMemory.layer, MemoryDisk.layer), { workspace: Effect.sync(() => `/memory/work/${++folders}`) })
