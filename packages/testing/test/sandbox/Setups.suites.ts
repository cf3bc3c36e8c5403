import { suite } from "@slipway/testing/contracts/sandbox/SetupsContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
