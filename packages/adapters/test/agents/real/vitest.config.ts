/** `npm run test:agents`: real agents against a fake model. `AGENTS=codex,claude` chooses some. */
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const chosen = (process.env.AGENTS ?? "").split(",").filter((name) => name !== "")

/** Starting several agents at once on a busy machine takes its time. */
const PATIENCE_MILLIS = 300_000

export default defineConfig({
  root: fileURLToPath(new URL("../../../../..", import.meta.url)),
  test: {
    include: [
      ...(chosen.length === 0 ? ["*"] : chosen).map((name) => `packages/adapters/test/agents/real/${name}.real.ts`),
      // The same agents in the whole service.
      "packages/slipway/test/agents/*.real.ts"
    ],
    reporters: ["default"],
    testTimeout: PATIENCE_MILLIS,
    hookTimeout: PATIENCE_MILLIS,
    // What takes long is the start of an agent. More at once than this starve the slowest one on two cores.
    sequence: { concurrent: true },
    maxConcurrency: 3,
    maxWorkers: 2
  }
})
