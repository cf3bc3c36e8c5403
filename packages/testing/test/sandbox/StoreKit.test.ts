/** `StoreKit` by the suites of its ports, over the statements of the example on SQLite. */
import { register } from "@slipway/testing/runners/Vitest"
import * as Checkpoints from "../../../../examples/sqlite-store/test/Checkpoints.suites.ts"
import * as Leases from "../../../../examples/sqlite-store/test/Leases.suites.ts"
import * as Maintenance from "../../../../examples/sqlite-store/test/Maintenance.suites.ts"
import * as SandboxStore from "../../../../examples/sqlite-store/test/SandboxStore.suites.ts"

const all = [...SandboxStore.suites(), ...Leases.suites(), ...Maintenance.suites(), ...Checkpoints.suites()]
// The suite of durability is in each of them.
for (const suite of new Map(all.map((suite) => [suite.name, suite])).values()) register(suite)
