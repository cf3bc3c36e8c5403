import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./SandboxHost.suites.ts"

register(...suites())
