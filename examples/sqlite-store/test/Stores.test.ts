/** The stores prove themselves with the suites that every store of Slipway runs. No test runner is installed for it. */
import { register } from "@slipway/domain/testing/runners/NodeTest"
import * as Durability from "./Durability.suites.ts"
import * as Leases from "./Leases.suites.ts"
import * as SandboxStore from "./SandboxStore.suites.ts"
import * as Upkeep from "./Upkeep.suites.ts"

register(SandboxStore.suites(), Leases.suites(), Upkeep.suites(), Durability.suites())
