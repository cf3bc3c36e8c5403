import { suite } from "@slipway/testing/contracts/sandbox/SandboxDashboardContract"
import { layer } from "./Stores.ts"
import * as Workers from "./Workers.suites.ts"

/** The suites of `Workers` cover the part about workers. */
export const suites = () => [suite("memory", layer), ...Workers.suites()]
