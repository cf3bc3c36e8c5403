import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Spending.suites.ts"

register(...suites())
