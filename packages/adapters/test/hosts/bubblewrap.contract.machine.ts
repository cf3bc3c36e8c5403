import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, layer } from "./bubblewrap.fixture.ts"
import { running, temporaryFolder } from "./Machine.ts"

if (absent === undefined) SandboxHostContract.suite("bubblewrap", layer(), { workspace: temporaryFolder, running })
else it.skip(`SandboxHost (bubblewrap): ${absent}`)
