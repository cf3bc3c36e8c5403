import { suite } from "@slipway/domain/testing/CheckpointsContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
