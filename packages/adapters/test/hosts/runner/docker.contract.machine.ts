import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, fixture, layer } from "./Machines.fixture.ts"

const reason = absent("docker")

if (reason === undefined) register(SandboxHostContract.suite("runners in docker", layer("docker"), fixture("docker")))
else it.skip(`SandboxHost (runners in docker) (${reason})`)
