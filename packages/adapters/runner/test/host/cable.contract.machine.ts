import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { noNamespaces } from "../../testing/Cable.ts"
import { absent, fixture, overCable } from "../../testing/Machines.fixture.ts"

const reason = absent("bubblewrap") ?? noNamespaces

if (reason === undefined) register(SandboxHostContract.suite("runners in another network namespace", overCable, fixture("bubblewrap")))
else it.skip(`SandboxHost (runners in another network namespace) (${reason})`)
