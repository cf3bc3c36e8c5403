import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./PromptFiles.suites.ts"

register(...suites())
