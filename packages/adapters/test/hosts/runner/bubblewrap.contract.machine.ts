import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, fixture, layer } from "./Machines.fixture.ts"

const reason = absent("bubblewrap")

if (reason === undefined) register(SandboxHostContract.suite("runners in bubblewrap", layer("bubblewrap"), fixture("bubblewrap")))
else it.skip(`SandboxHost (runners in bubblewrap) (${reason})`)
