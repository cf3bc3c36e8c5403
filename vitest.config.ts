import { defineConfig } from "vitest/config"

/** A bound for tests that hang, not a rule about speed: real processes take their time on a busy machine. */
const PATIENCE_MILLIS = 120_000

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // One process for all files of a package, which load its modules once: test files keep nothing in them.
    isolate: false,
    // A line for each file; what tests log on purpose is shown when they fail.
    silent: "passed-only",
    slowTestThreshold: PATIENCE_MILLIS
  }
})
