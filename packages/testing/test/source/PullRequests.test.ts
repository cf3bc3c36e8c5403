import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./PullRequests.suites.ts"

register(...suites())
