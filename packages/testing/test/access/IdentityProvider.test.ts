import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./IdentityProvider.suites.ts"

register(...suites())
