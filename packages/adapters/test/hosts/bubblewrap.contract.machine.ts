import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, layer } from "./bubblewrap.fixture.ts"
import { running, workspaceFor } from "./Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("bubblewrap", layer(), { workspace: workspaceFor, running }))
else it.skip(`SandboxHost (bubblewrap) (${absent})`)
