import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./PartnerStore.suites.ts"

register(...suites())
