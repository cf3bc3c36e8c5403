import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./Forks.suites.ts"

register(...suites())
