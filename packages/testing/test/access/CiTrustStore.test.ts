import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./CiTrustStore.suites.ts"

register(...suites())
