import { suite } from "@slipway/testing/contracts/publishing/FeedbackWatchesContract"
import { layer } from "../sandbox/Stores.ts"

export const suites = () => [suite("memory", layer)]
