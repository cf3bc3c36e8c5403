import { suite } from "@slipway/testing/contracts/sandbox/PromptFilesContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
