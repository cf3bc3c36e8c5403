import { suite } from "@slipway/domain/testing/ForksContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
