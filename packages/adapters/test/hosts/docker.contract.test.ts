import { it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/domain/testing/SandboxHostContract"
import { absent, layer } from "./docker.fixture.ts"
import { running, temporaryFolder } from "./Machine.ts"

if (absent === undefined) SandboxHostContract.suite("Docker", layer(), { workspace: temporaryFolder, running })
else it.skip(`SandboxHost (Docker): ${absent}`)
