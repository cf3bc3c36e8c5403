import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./WebhookStore.suites.ts"

register(...suites())
