import { suite } from "@slipway/testing/contracts/sandbox/ForksContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
