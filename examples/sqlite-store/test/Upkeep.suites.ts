import { suite } from "@slipway/domain/testing/UpkeepContract"
import { layer } from "./Fixture.ts"

export const suites = () => [suite("sqlite", layer)]
