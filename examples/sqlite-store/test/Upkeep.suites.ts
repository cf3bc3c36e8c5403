import { suite } from "@slipway/testing/contracts/sandbox/UpkeepContract"
import * as Durability from "./Durability.suites.ts"
import { layer } from "./Fixture.ts"

export const suites = () => [suite("sqlite", layer), ...Durability.suites()]
