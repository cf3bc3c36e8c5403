import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./SessionStore.suites.ts"

register(...suites())
