import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Setups.suites.ts"

register(...suites())
