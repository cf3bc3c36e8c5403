import { suite } from "@slipway/testing/contracts/sandbox/SandboxDashboardContract"
import { register } from "@slipway/testing/runners/Vitest"
import { layer } from "./Stores.ts"

register(suite("memory", layer))
