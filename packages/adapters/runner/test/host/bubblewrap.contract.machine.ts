import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, fixture, layer } from "../../testing/Machines.fixture.ts"

const reason = absent("bubblewrap")

if (reason === undefined) register(SandboxHostContract.suite("runners in bubblewrap", layer("bubblewrap"), fixture("bubblewrap")))
else it.skip(`SandboxHost (runners in bubblewrap) (${reason})`)
