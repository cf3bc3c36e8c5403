import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./StoreLaws.suites.ts"

register(...suites())
