import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./DeviceLoginStore.suites.ts"

register(...suites())
