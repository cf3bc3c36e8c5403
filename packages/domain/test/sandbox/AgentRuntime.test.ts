import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./AgentRuntime.suites.ts"

register(...suites())
