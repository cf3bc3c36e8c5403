import { configDefaults, defineConfig, mergeConfig } from "vitest/config"
import shared from "../../vitest.config.ts"

export default mergeConfig(
  shared,
  defineConfig({
    test: {
      globalSetup: ["@slipway/embedded-postgres/testing/TestPostgresServer"],
      // Most of their time is waiting for processes.
      maxWorkers: 2,
      // They have commands of their own: `vitest.suites.ts`.
      exclude: [...configDefaults.exclude, "test/{browser,conformance,deploy,docs,image,reliability}/**"]
    }
  })
)
