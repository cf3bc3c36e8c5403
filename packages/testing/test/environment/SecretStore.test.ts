import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./SecretStore.suites.ts"

register(...suites())
