/** `npm run test:abuse`: what somebody hostile does to a served process, and what others notice of it. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** All attacks together; each has a bound of its own. */
const PATIENCE_MILLIS = 900_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/abuse/*.abuse.ts"],
    reporters: ["verbose"],
    disableConsoleIntercept: true,
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
