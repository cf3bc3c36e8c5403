import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./PartnerStore.suites.ts"

register(...suites())
