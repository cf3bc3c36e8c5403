/** `npm run test:service`: what services are to each other, to disks that fill up and databases that are silent, and to a partner. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: { ...shared.test, include: ["test/service/**/*.test.ts"], globalSetup: ["@slipway/adapters/testing/TestPostgresServer"] }
})
