import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./SourceHost.suites.ts"

register(...suites())
