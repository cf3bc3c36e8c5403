/** `npm run test:faults`: what breaks beneath a served process, again and again, and what was acknowledged before. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { table } from "./Table.ts"

/** A bound for tests that hang. */
const PATIENCE_MILLIS = 900_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/faults/*.faults.ts"],
    reporters: ["verbose", table],
    disableConsoleIntercept: true,
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
