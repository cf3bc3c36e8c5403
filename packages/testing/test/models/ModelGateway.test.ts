import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./ModelGateway.suites.ts"

register(...suites())
