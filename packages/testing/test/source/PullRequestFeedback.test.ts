import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./PullRequestFeedback.suites.ts"

register(...suites())
