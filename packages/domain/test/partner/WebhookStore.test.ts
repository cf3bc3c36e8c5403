import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./WebhookStore.suites.ts"

register(...suites())
