import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./FollowedRepositories.suites.ts"

register(...suites())
