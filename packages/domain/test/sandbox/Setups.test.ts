import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./Setups.suites.ts"

register(...suites())
