import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, layer, running } from "./gvisor.fixture.ts"
import { workspaceFor } from "./Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("gVisor", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (gVisor) (${absent})`)
