import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./SessionStore.suites.ts"

register(...suites())
