import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./MemberStore.suites.ts"

register(...suites())
