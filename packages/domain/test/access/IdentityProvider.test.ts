import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./IdentityProvider.suites.ts"

register(...suites())
