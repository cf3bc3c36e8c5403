/** `npm run test:publishing`: a worker is killed at every step of publishing. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 900_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/publish/*.kills.ts"],
    globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
    reporters: ["verbose"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // Most of the time goes into starting the processes that are killed.
    env: { NODE_COMPILE_CACHE: "node_modules/.cache/slipway-publishing" },
    maxWorkers: 2
  }
})
