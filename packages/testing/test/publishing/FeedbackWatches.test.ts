import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./FeedbackWatches.suites.ts"

register(...suites())
