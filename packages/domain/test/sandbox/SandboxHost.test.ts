import { Effect } from "effect"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { lifecycle } from "@slipway/domain/testing/SandboxHostContract"

let folders = 0

lifecycle("memory", SandboxHost.layerMemory, { workspace: Effect.sync(() => `/memory/work/${++folders}`) })
