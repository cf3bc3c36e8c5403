import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./AutomationStore.suites.ts"

register(...suites())
