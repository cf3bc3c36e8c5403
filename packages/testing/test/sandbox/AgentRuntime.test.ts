import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./AgentRuntime.suites.ts"

register(...suites())
