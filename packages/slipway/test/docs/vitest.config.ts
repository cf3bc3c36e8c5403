/** `npm run test:docs`: the commands of the README and of docs, as they are written, on a real server. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import shared from "../../../../vitest.config.ts"

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: { ...shared.test, include: ["test/docs/**/*.test.ts"] }
})
