import { suite } from "@slipway/domain/testing/PullRequestsContract"
import { fixture, layer } from "./Repositories.ts"

export const suites = () => [suite("memory", layer, fixture)]
