import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./ModelProviderStore.suites.ts"

register(...suites())
