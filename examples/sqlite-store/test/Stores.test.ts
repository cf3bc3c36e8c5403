/** The stores prove themselves with the suites that every store of Slipway runs. No test runner is installed for it. */
import { register } from "@slipway/testing/runners/NodeTest"
import * as Checkpoints from "./Checkpoints.suites.ts"
import * as Leases from "./Leases.suites.ts"
import * as Maintenance from "./Maintenance.suites.ts"
import * as SandboxStore from "./SandboxStore.suites.ts"

const all = [...SandboxStore.suites(), ...Leases.suites(), ...Maintenance.suites(), ...Checkpoints.suites()]
// The suite of durability is in each of the first three.
register(Array.from(new Map(all.map((suite) => [suite.name, suite])).values()))
