import { configDefaults, defineConfig, mergeConfig } from "vitest/config"
import shared from "../../vitest.config.ts"

export default mergeConfig(
  shared,
  defineConfig({
    test: {
      globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
      // Most of their time is waiting for processes.
      maxWorkers: 2,
      // They have commands of their own: test:browser, test:conformance, test:deploy, test:docs, test:image, test:service.
      exclude: [
        ...configDefaults.exclude,
        "test/browser/**",
        "test/conformance/**",
        "test/deploy/**",
        "test/docs/**",
        "test/image/**",
        "test/service/**"
      ]
    }
  })
)
