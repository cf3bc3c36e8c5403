import * as SandboxHostMemory from "@slipway/domain/memory/SandboxHostMemory"
import { lifecycle } from "@slipway/domain/testing/SandboxHostContract"
import { Effect } from "effect"

let folders = 0

lifecycle("memory", SandboxHostMemory.layer, { workspace: Effect.sync(() => `/memory/work/${++folders}`) })
