import { suite } from "@slipway/testing/contracts/sandbox/MaintenanceContract"
import * as Durability from "./Durability.suites.ts"
import { layer } from "./Fixture.ts"

export const suites = () => [suite("sqlite", layer), ...Durability.suites()]
