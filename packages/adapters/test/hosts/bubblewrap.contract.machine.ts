import { it } from "@effect/vitest"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, layer } from "./bubblewrap.fixture.ts"
import { running, temporaryFolder } from "./Machine.ts"

if (absent === undefined) register(SandboxHostContract.suite("bubblewrap", layer(), { workspace: temporaryFolder, running }))
else it.skip(`SandboxHost (bubblewrap): ${absent}`)
