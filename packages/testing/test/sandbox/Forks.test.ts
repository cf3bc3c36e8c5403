import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Forks.suites.ts"

register(...suites())
