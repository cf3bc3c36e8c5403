import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./Spending.suites.ts"

register(...suites())
