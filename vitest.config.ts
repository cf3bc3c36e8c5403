import { defineConfig } from "vitest/config"
import type { Reporter, Vitest } from "vitest/node"

/** A bound for tests that hang, not a rule about speed: real processes take their time on a busy machine. */
const PATIENCE_MILLIS = 300_000

/**
 * Prints one line for each skipped test. A test may be skipped only because this machine lacks something, and says so: by `(needs …)` in
 * its name or the name of its suite, or by the note of `skip(note)`. Any other skipped test fails the run.
 */
export class SkippedTests implements Reporter {
  private vitest: Vitest | undefined
  private readonly projects: RegExp

  /** `projects`: the names of those whose tests it looks at. */
  constructor(projects = /(?:)/u) {
    this.projects = projects
  }

  onInit(vitest: Vitest) {
    this.vitest = vitest
  }

  onTestRunEnd(modules: Parameters<NonNullable<Reporter["onTestRunEnd"]>>[0]) {
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
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default", new SkippedTests()],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // The system's and the user's git configuration say nothing here: git-lfs, for one, adds a filter to all repositories.
    env: { GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null" },
    // One process for all files of a package, which load its modules once: test files keep nothing in them.
    isolate: false,
    // A line for each file; what tests log on purpose is shown when they fail.
    silent: "passed-only",
    slowTestThreshold: PATIENCE_MILLIS
  }
})
