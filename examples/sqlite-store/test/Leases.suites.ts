import { suite } from "@slipway/domain/testing/LeasesContract"
import { layer } from "./Fixture.ts"

export const suites = () => [suite("sqlite", layer)]
