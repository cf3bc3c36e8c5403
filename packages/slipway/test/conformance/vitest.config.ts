/** `npm run test:conformance`: the kit of packages/conformance on our server, and on the same server with every planted defect. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: { ...shared.test, include: ["test/conformance/**/*.test.ts"], globalSetup: ["@slipway/adapters/testing/TestPostgresServer"] }
})
