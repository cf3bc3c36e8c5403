import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./SetupCaches.suites.ts"

register(...suites())
