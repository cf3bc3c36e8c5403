import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./SandboxHost.suites.ts"

register(...suites())
