/**
 * The suites beside the unit tests: `npm run test:SUITE [-- PATH…]`. PATH is a part of the path of test files and chooses among them:
 * `npm run test:reliability -- faults/Cut`. docs/contributing.md has what each suite needs and how long it takes.
 */
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import * as Abilities from "./packages/slipway/test/agents/Abilities.ts"
import * as Complaints from "./packages/slipway/test/reliability/complaints/Table.ts"
import * as Faults from "./packages/slipway/test/reliability/faults/Table.ts"
import { environment, TestNotes } from "./vitest.config.ts"

const root = import.meta.dirname

/** By name, so that what a suite prints comes at its end. */
class ByName extends BaseSequencer {
  override sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    return Promise.resolve(files.toSorted((a, b) => a.moduleId.localeCompare(b.moduleId)))
  }
}

const MINUTE = 60_000
const postgres = ["./packages/adapters/embedded-postgres/testing/TestPostgresServer.ts"]

const projects: Array<TestProjectInlineConfiguration> = []

/** Suites run one after the other. `patience` bounds tests that hang. */
const suite = (name: string, patience: number, test: NonNullable<TestProjectInlineConfiguration["test"]>) => {
  projects.push({
    extends: false,
    root,
    test: {
      name,
      env: environment,
      testTimeout: patience,
      hookTimeout: patience,
      ...test,
      sequence: { groupOrder: projects.length, ...test.sequence }
    }
  })
}

/** One process for all files of a suite, which load its modules once. */
const together = { isolate: false, globalSetup: postgres }
/** Files that need the whole machine, or most of it. */
const alone = { fileParallelism: false, disableConsoleIntercept: true }

// The pages in Chromium, before a real service.
suite("browser", 10 * MINUTE, { include: ["packages/slipway/test/browser/*.test.ts"], globalSetup: postgres, fileParallelism: false })

// The kit of packages/conformance on our server, and on the same server with every planted defect.
suite("conformance", 5 * MINUTE, { include: ["packages/slipway/test/conformance/**/*.test.ts"], ...together })

// The commands of the README and of docs as they are written, what `deploy/` has, and the image where a Docker daemon answers.
suite("docs", 5 * MINUTE, { include: ["packages/slipway/test/docs/**/*.test.ts"], isolate: false })
suite("docs-deploy", 5 * MINUTE, { include: ["packages/slipway/test/deploy/**/*.test.ts"], ...together })
suite("docs-image", 30 * MINUTE, { include: ["packages/slipway/test/image/*.test.ts"], fileParallelism: false })

// Real agents against a fake model. `AGENTS=codex,claude` chooses some. Most of the time goes into starting an agent, and more at once
// than this starve the slowest one on two cores.
const agents = (process.env["AGENTS"] ?? "*").split(",").filter((name) => name !== "")
suite("agents", 5 * MINUTE, {
  include: [...agents.map((name) => `packages/slipway/test/agents/real/${name}.real.ts`), "packages/slipway/test/agents/*.real.ts"],
  sequence: { concurrent: true },
  maxConcurrency: 3,
  maxWorkers: 2
})

// Boxes, sized folders, machines, control groups; as root everything is tested. These files need nothing that a machine has once:
const BESIDE_OTHERS = [
  "packages/adapters/runner/test/trees/AgentCommits.machine.ts",
  "packages/adapters/runner/test/trees/TreesInMachine.machine.ts",
  "packages/adapters/runner/test/host/StartAgain.machine.ts",
  "packages/adapters/kubernetes/test/MachinesKubernetes.machine.ts",
  "packages/adapters/runner/test/Runner.machine.ts"
]
suite("kernel-machines", 5 * MINUTE, { include: BESIDE_OTHERS, ...together, maxWorkers: 2 })
suite("kernel-boxes", 5 * MINUTE, {
  include: ["packages/{adapters/*,worker}/test/**/*.machine.ts"],
  exclude: BESIDE_OTHERS,
  ...together,
  fileParallelism: false
})
// What a hostile program can do in a box, and in one that lacks a layer; and what a hostile repository can do that is set up in one.
// Most of an attempt is waiting; the race and the measurement are alone in their files.
suite("kernel-isolation", 2 * MINUTE, {
  include: ["packages/{adapters/*,worker}/test/isolation/*.isolation.ts"],
  globalSetup: ["packages/adapters/machine/testing/isolation/Boxes.ts"],
  sequence: { concurrent: true },
  maxConcurrency: 4,
  fileParallelism: false
})

// A worker that is killed at every step of a publication and of a round of feedback: most of the time goes into starting the processes
// that are killed.
suite("publishing", 60 * MINUTE, {
  include: ["packages/worker/test/publish/*.kills.ts"],
  globalSetup: postgres,
  env: { NODE_COMPILE_CACHE: "node_modules/.cache/slipway-publishing" },
  maxWorkers: 2
})
const reliability = (name: string) => ({ include: [`packages/slipway/test/reliability/${name}/**/*.test.ts`] })
// What services are to each other, to full disks and silent databases, and to a partner.
suite("reliability-service", 5 * MINUTE, { ...reliability("service"), ...together })
// What breaks beneath a served process, again and again, and what was acknowledged before.
suite("reliability-faults", 15 * MINUTE, { ...reliability("faults"), ...alone, env: {} })
// Workers on machines of their own, which go away with all they have. As root, with iproute2.
suite("reliability-failover", 15 * MINUTE, { ...reliability("failover"), ...alone, globalSetup: postgres, env: {} })
// What people reported of comparable products. As root, with bubblewrap, nginx and iproute2, everything is tested.
suite("reliability-complaints", 10 * MINUTE, { ...reliability("complaints"), ...alone, globalSetup: postgres, env: {} })
// What a hostile client does to a served process, and what others notice of it.
suite("reliability-abuse", 15 * MINUTE, { ...reliability("abuse"), ...alone, env: {} })
// What the release before left, and its processes beside ours. The registry must be reachable, and the repository have its history.
suite("reliability-upgrade", 5 * MINUTE, {
  ...reliability("upgrade"),
  globalSetup: [...postgres, "./packages/slipway/test/reliability/upgrade/Previous.ts"],
  fileParallelism: false,
  env: {}
})

export default defineConfig({
  test: {
    projects,
    sequence: { sequencer: ByName },
    reporters: ["verbose", new TestNotes(/^(conformance|docs(-deploy)?|kernel-(boxes|machines)|reliability-service)$/u), Abilities.table,
      Faults.table, Complaints.table],
    slowTestThreshold: 5 * MINUTE
  }
})
