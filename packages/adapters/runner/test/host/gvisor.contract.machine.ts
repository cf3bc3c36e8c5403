import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, fixture, layer } from "../../testing/Machines.fixture.ts"

const reason = absent("gvisor")

if (reason === undefined) register(SandboxHostContract.suite("runners in gvisor", layer("gvisor"), fixture("gvisor")))
else it.skip(`SandboxHost (runners in gvisor) (${reason})`)
