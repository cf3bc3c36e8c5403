import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./MemberStore.suites.ts"

register(...suites())
