import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./McpServerStore.suites.ts"

register(...suites())
