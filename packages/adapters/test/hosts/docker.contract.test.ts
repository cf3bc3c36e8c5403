import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, layer } from "./docker.fixture.ts"
import { running, workspaceFor } from "./Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("Docker", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (Docker) (${absent})`)
