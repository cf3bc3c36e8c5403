import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Deletion.suites.ts"

register(...suites())
