import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./HostConnections.suites.ts"

register(...suites())
