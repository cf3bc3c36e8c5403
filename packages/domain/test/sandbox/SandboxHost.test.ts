import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { lifecycle } from "@slipway/domain/testing/SandboxHostContract"
import { Effect } from "effect"

let folders = 0

lifecycle("memory", SandboxHost.layerMemory, { workspace: Effect.sync(() => `/memory/work/${++folders}`) })
