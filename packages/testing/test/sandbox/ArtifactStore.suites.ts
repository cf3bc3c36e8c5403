import { suite } from "@slipway/testing/contracts/sandbox/ArtifactStoreContract"
import { layer } from "./Stores.ts"

export const suites = () => [suite("memory", layer)]
