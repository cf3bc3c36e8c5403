/** `npm run test:boxes`: real boxes, folders of a size that the kernel keeps, and what git says of trees from within; as root. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    ...shared.test,
    include: ["test/**/*.boxes.ts"],
    globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
    // Users, control groups and mounts are the whole machine's: one file at a time.
    fileParallelism: false
  }
})
