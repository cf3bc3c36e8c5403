import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./SecretStore.suites.ts"

register(...suites())
