/**
 * `npm run test:isolation`: what a hostile program can do in a box, and in one that lacks a layer; and what a hostile repository can
 * do that is set up in one.
 */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 120_000

/** By name, so that what the suite prints comes at its end. */
class ByName extends BaseSequencer {
  override sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    return Promise.resolve(files.toSorted((a, b) => a.moduleId.localeCompare(b.moduleId)))
  }
}

export default defineConfig({
  root: fileURLToPath(new URL("../../../..", import.meta.url)),
  test: {
    include: ["packages/adapters/test/isolation/*.isolation.ts", "packages/worker/test/isolation/*.isolation.ts"],
    globalSetup: ["packages/adapters/test/isolation/Boxes.ts"],
    reporters: ["verbose"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // Most of an attempt is waiting; the race and the measurement are alone in their files.
    sequence: { concurrent: true, sequencer: ByName },
    maxConcurrency: 4,
    fileParallelism: false
  }
})
