/**
 * `npm run test:complaints`: what people reported of comparable products, each as a test of the real thing. As root, with bubblewrap,
 * nginx and iproute2, it tests all; docs/complaints.md lists them.
 */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import * as Table from "./Table.ts"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 600_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/complaints/*.complaints.ts"],
    reporters: ["verbose", Table.reporter],
    globalSetup: [fileURLToPath(new URL("../../../adapters/testing/TestPostgresServer.ts", import.meta.url))],
    disableConsoleIntercept: true,
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
