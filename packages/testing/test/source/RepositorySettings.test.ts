import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./RepositorySettings.suites.ts"

register(...suites())
