import { suite } from "@slipway/domain/testing/SetupsContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
