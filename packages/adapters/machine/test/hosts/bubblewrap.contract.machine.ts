import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { absent, layer } from "../../testing/hosts/bubblewrap.fixture.ts"
import { running, workspaceFor } from "../../testing/hosts/Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("bubblewrap", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (bubblewrap) (${absent})`)
