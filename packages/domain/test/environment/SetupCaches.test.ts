import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./SetupCaches.suites.ts"

register(...suites())
