import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./SourceHost.suites.ts"

register(...suites())
