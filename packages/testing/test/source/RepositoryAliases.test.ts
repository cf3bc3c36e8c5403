import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./RepositoryAliases.suites.ts"

register(...suites())
