import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Workers.suites.ts"

register(...suites())
