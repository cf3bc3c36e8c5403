import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, layer, running } from "../../testing/hosts/gvisor.fixture.ts"
import { workspaceFor } from "../../testing/hosts/Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("gVisor", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (gVisor) (${absent})`)
