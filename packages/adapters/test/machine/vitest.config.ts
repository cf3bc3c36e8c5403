/** `npm run test:machine`: boxes, folders of a size that the kernel keeps, servers and workers that are killed; as root it tests all. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    ...shared.test,
    include: ["test/**/*.machine.ts"],
    globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
    // Users, control groups and mounts are the whole machine's: one file at a time.
    fileParallelism: false
  }
})
