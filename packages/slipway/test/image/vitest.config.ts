/** `npm run test:image`: the image, built and run by a Docker daemon. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

/** A bound for tests that hang: to build the image takes minutes. */
const PATIENCE_MILLIS = 1_800_000

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/image/*.test.ts"],
    reporters: ["verbose"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    fileParallelism: false
  }
})
