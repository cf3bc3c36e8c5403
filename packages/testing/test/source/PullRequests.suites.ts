import { suite } from "@slipway/testing/contracts/source/PullRequestsContract"
import { fixture, layer } from "./Repositories.ts"

export const suites = () => [suite("memory", layer, fixture)]
