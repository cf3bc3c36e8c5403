import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, fixture, layer } from "./Machines.fixture.ts"

const reason = absent("gvisor")

if (reason === undefined) register(SandboxHostContract.suite("runners in gvisor", layer("gvisor"), fixture("gvisor")))
else it.skip(`SandboxHost (runners in gvisor) (${reason})`)
