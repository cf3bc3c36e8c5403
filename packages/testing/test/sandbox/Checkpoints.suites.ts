import { suite } from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
