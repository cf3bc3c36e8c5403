import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./ArtifactStore.suites.ts"

register(...suites())
