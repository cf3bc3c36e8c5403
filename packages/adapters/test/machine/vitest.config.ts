/** `npm run test:machine`: boxes, folders of a size that the kernel keeps, machines, workers that are killed; as root it tests all. */
import { fileURLToPath } from "node:url"
import { defineConfig, type TestProjectConfiguration } from "vitest/config"
import shared from "../../../../vitest.config.ts"

const packageRoot = fileURLToPath(new URL("../..", import.meta.url))

/** These need nothing that the whole machine has once. */
const BESIDE_OTHERS = [
  "test/git/AgentCommits.machine.ts",
  "test/git/TreesInMachine.machine.ts",
  "test/hosts/runner/StartAgain.machine.ts",
  "test/kubernetes/MachinesKubernetes.machine.ts",
  "test/runner/Runner.machine.ts",
  "test/runner/Waiting.machine.ts"
]

const project = (name: string, test: object): TestProjectConfiguration => ({
  root: packageRoot,
  extends: false,
  test: { ...shared.test, name, globalSetup: ["@slipway/adapters/testing/TestPostgresServer"], ...test }
})

export default defineConfig({
  root: packageRoot,
  test: {
    ...shared.test,
    projects: [
      project("machines", { include: BESIDE_OTHERS, maxWorkers: 2, sequence: { groupOrder: 1 } }),
      // Users, control groups and mounts are the whole machine's: one file at a time.
      project("kernel", {
        include: ["test/**/*.machine.ts"],
        exclude: BESIDE_OTHERS,
        fileParallelism: false,
        sequence: { groupOrder: 2 }
      })
    ]
  }
})
