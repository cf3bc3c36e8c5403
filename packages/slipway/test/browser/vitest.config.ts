/** `npm run test:browser`: the pages in Chromium, before a real service. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 180_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/browser/*.test.ts"],
    globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
    reporters: ["verbose"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // Each file has a service and a browser of its own.
    fileParallelism: false
  }
})
