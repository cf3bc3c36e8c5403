import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, fixture, layer } from "../../testing/Machines.fixture.ts"

const reason = absent("docker")

if (reason === undefined) register(SandboxHostContract.suite("runners in docker", layer("docker"), fixture("docker")))
else it.skip(`SandboxHost (runners in docker) (${reason})`)
