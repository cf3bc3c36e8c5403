import { suite } from "@slipway/testing/contracts/sandbox/DeletionContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
