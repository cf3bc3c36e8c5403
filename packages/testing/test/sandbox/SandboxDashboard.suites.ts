import { suite } from "@slipway/testing/contracts/sandbox/SandboxDashboardContract"
import { layer } from "./Stores.ts"
import * as Workers from "./Workers.suites.ts"

/** What it tells of workers is with these. */
export const suites = () => [suite("memory", layer), ...Workers.suites()]
