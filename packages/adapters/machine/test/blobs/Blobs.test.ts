import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./Blobs.suites.ts"

register(...suites())
