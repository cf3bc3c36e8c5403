// The rules in memory, as promises: for every runtime and bundler.
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import { open } from "@slipway/domain/promise"

const slipway = await open({ store: SandboxStoreMemory.layer, ids: crypto })
const by = { grantId: "acme", organizationId: "acme-inc", userId: "ada" }
const { sandbox } = await slipway.create(by, { repos: [{ fullName: "acme/shop" }], prompt: "Fix the flaky test." })
await slipway.terminate(by, sandbox.id)
const types = []
for await (const event of slipway.events(by, sandbox.id)) types.push(event.type)
await slipway.close()
if (types.length < 2) throw new Error(types.join())
process.stdout.write(`rules: ${types.length} events\n`)
