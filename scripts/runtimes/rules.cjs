// The same in CommonJS: `require` of modules, which have no top-level await.
const SandboxStoreMemory = require("@slipway/domain/memory/sandbox/SandboxStoreMemory")
const { open } = require("@slipway/domain/promise")

const main = async () => {
  const slipway = await open({ store: SandboxStoreMemory.layer, ids: crypto })
  const by = { grantId: "acme", organizationId: "acme-inc", userId: "ada" }
  const { sandbox } = await slipway.create(by, { repos: [{ fullName: "acme/shop" }], prompt: "Fix the flaky test." })
  const { outcome } = await slipway.terminate(by, sandbox.id)
  await slipway.close()
  process.stdout.write(`rules: ${outcome}\n`)
}
main()
