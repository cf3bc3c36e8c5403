import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./DeviceLoginStore.suites.ts"

register(...suites())
