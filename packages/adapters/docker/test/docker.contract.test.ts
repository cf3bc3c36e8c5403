import { it } from "@effect/vitest"
import { running, workspaceFor } from "@slipway/machine/testing/hosts/Machine"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, layer } from "../testing/docker.fixture.ts"

if (absent === undefined) register(SandboxHostContract.suite("Docker", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (Docker) (${absent})`)
