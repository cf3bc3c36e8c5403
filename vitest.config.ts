/**
 * The unit tests: each package is a project. `vitest run packages/testing/test/sandbox/Transition.test.ts` at the root runs one file, as
 * `npm test -- test/sandbox/Transition.test.ts` does in the folder of its package.
 */
import { appendFileSync } from "node:fs"
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config"
import type { Reporter, Vitest } from "vitest/node"

/** A bound for tests that hang, not a rule about speed: real processes take their time on a busy machine. */
const PATIENCE_MILLIS = 300_000

type Modules = Parameters<NonNullable<Reporter["onTestRunEnd"]>>[0]

/**
 * Prints one line for each skipped test. A test may be skipped only because this machine lacks something, and says so: by `(needs …)` in
 * its name or the name of its suite, or by the note of `skip(note)`. Any other skipped test fails the run. What failed is added to the
 * file at `FAILED_TESTS`, to be read once more at the end of a run of many packages.
 */
export class TestNotes implements Reporter {
  private vitest: Vitest | undefined
  private readonly projects: RegExp

  /** `projects`: the names of those whose tests it looks at. */
  constructor(projects = /(?:)/u) {
    this.projects = projects
  }

  onInit(vitest: Vitest) {
    this.vitest = vitest
  }

  onTestRunEnd(modules: Modules) {
    this.keepFailures(modules)
    // `-t` skips all other tests.
    if (this.vitest?.config.testNamePattern !== undefined) return
    for (const module of modules) {
      if (!this.projects.test(module.project.name)) continue
      for (const test of module.children.allTests("skipped")) {
        const result = test.result()
        const note = "note" in result && result.note !== undefined ? ` (${result.note})` : ""
        const name = `${module.relativeModuleId}: ${test.fullName}${note}`
        if (/\(needs \S/u.test(name)) process.stderr.write(`SKIPPED ${name}\n`)
        else {
          process.stderr.write(`SKIPPED WITHOUT A REASON ${name}\n`)
          process.exitCode = 1
        }
      }
    }
  }

  private keepFailures(modules: Modules) {
    const { FAILED_TESTS: file } = process.env
    if (file === undefined) return
    for (const module of modules) {
      const failed = [...module.children.allTests("failed")]
      const errors = [module.errors(), ...failed.map((test) => test.result().errors ?? [])].flat()
      const lines = [...failed.map(({ fullName }) => fullName), ...errors.map(({ message, stack = "" }) => `${message}\n${stack}`)]
      if (lines.length > 0) appendFileSync(file, `FAILED ${module.project.name} ${module.relativeModuleId}\n${lines.join("\n")}\n`)
    }
  }
}

/** The system's and the user's git configuration say nothing here: git-lfs, for one, adds a filter to all repositories. */
export const environment = { GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null" }

const SERVER = `${import.meta.dirname}/packages/adapters/embedded-postgres/testing/TestPostgresServer.ts`
/** With a Postgres server for the run. */
const postgres = { globalSetup: [SERVER] }
/** Much of their time is waiting: for disks, for processes, for a database that is silent. */
const waiting = { maxWorkers: 2 }

/** The folders with unit tests, and what their tests need. */
const folders: Record<string, NonNullable<TestProjectInlineConfiguration["test"]>> = {
  "packages/domain": {},
  "packages/testing": {},
  "packages/api": {},
  "packages/client": {},
  "packages/conformance": {},
  "packages/http": {},
  "packages/pages": {},
  "packages/worker": postgres,
  "packages/adapters/agents": waiting,
  "packages/adapters/docker": waiting,
  "packages/adapters/embedded-postgres": { ...waiting, ...postgres },
  "packages/adapters/gateway": waiting,
  "packages/adapters/forgejo": waiting,
  "packages/adapters/git": waiting,
  "packages/adapters/github": waiting,
  "packages/adapters/gitlab": waiting,
  "packages/adapters/kubernetes": waiting,
  "packages/adapters/local-source": { ...waiting, ...postgres },
  "packages/adapters/machine": waiting,
  "packages/adapters/oidc": waiting,
  "packages/adapters/postgres": { ...waiting, ...postgres },
  "packages/adapters/rest-host": waiting,
  "packages/adapters/runner": waiting,
  "packages/adapters/worker-link": { ...waiting, ...postgres },
  // The suites have commands of their own: `vitest.suites.ts`.
  "packages/slipway": {
    ...waiting,
    ...postgres,
    exclude: ["**/node_modules/**", "test/{browser,conformance,deploy,docs,image,reliability}/**"]
  },
  scripts: waiting,
  bench: waiting
}

/** The folders one after the other, each with one process for all of its files, which load its modules once: they keep nothing in them. */
const projects = Object.entries(folders).map(([root, test], groupOrder): TestProjectInlineConfiguration => ({
  extends: false,
  root: `${import.meta.dirname}/${root}`,
  test: {
    name: root.replace(/.*\//u, ""),
    include: ["test/**/*.test.ts"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    env: environment,
    isolate: false,
    sequence: { groupOrder },
    ...test
  }
}))

export default defineConfig({
  test: {
    projects,
    reporters: ["default", new TestNotes()],
    // A line for each file; what tests log on purpose is shown when they fail.
    silent: "passed-only",
    slowTestThreshold: PATIENCE_MILLIS
  }
})
