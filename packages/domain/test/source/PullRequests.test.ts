import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./PullRequests.suites.ts"

register(...suites())
