import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./Workers.suites.ts"

register(...suites())
