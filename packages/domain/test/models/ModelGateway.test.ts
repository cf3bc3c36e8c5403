import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./ModelGateway.suites.ts"

register(...suites())
