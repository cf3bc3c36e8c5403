/** `npm run test:deploy`: what `deploy/` has, under the programs it is for. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: { ...shared.test, include: ["test/deploy/**/*.test.ts"], globalSetup: ["@slipway/adapters/testing/TestPostgresServer"] }
})
