/** `npm run test:machines`: workers on machines of their own, which go away with all they have. As root, with iproute2. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 900_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/machines/*.machines.ts"],
    reporters: ["verbose"],
    globalSetup: [fileURLToPath(new URL("../../../adapters/testing/TestPostgresServer.ts", import.meta.url))],
    disableConsoleIntercept: true,
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
