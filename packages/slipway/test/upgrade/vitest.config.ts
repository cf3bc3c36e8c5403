/**
 * `npm run test:upgrade`: what the release before left, and its processes beside ours. The registry must be reachable, and the repository
 * have its history; UPGRADE_FROM and UPGRADE_SINCE name checkouts of those versions with their packages installed, instead.
 */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 300_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/upgrade/*.upgrade.ts"],
    globalSetup: ["@slipway/adapters/testing/TestPostgresServer", "./test/upgrade/Previous.ts"],
    reporters: ["verbose"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
